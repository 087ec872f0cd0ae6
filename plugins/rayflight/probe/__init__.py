"""Runs inside Ray workers: standard library, ray, and torch where it is. Imports nothing of Rayflight."""
