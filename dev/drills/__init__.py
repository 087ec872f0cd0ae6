"""`make drills`: every failure path provoked for real, seen by an observer of its own, and Rayflight's answer judged.

The table is include/drills/drills.yaml; who adds a drill writes an entry there, and an action in ``provoke`` where the
fault is of a new kind.
"""
