"""Allocates in a task on a worker pod until somebody ends it: Ray's memory monitor, or the kernel."""

from __future__ import annotations

import time

import ray

MIB = 1024 * 1024


@ray.remote(num_gpus=1, num_cpus=0, max_retries=0)
def eat() -> int:
    """Bytes that are written to, so that they really are in memory."""
    eaten = []
    while True:
        eaten.append(bytearray(b"x" * (20 * MIB)))
        time.sleep(0.15)  # Ray looks four times a second, and has to be faster than the kernel


if __name__ == "__main__":
    ray.init()
    ray.get(eat.remote())
