"""Runs inside Ray workers: standard library, ray, and torch where it is. Imports nothing of Rayflight.

Shipped as a working_dir under the name ``rayflight_probe`` and started as a Ray job by
``python3 -m rayflight_probe.main --expect JSON``. It measures and reports; what is good
enough is judged outside.
"""
