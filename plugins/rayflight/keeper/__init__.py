"""Runs one local Ray cluster: fences it off, starts head and workers, replaces what dies, ends everything.

A process of its own, started by the local backend and outliving it. Standard library and psutil only; it imports
nothing of the rest of Rayflight, reads ``plan.json`` and writes ``status.json`` in its cluster's folder, decides
nothing about a run.
"""
