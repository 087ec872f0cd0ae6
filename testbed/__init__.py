"""A real Kubernetes with the real KubeRay operator on one Linux box, for development, tests and demos.

Standard library only: it runs before any virtual environment exists. It is not part of the shipped package and imports
nothing of it. What it starts listens on loopback or on its own bridge, and `down` leaves the host as it was.
"""
