"""Allocates in a task on a worker pod until somebody ends it: Ray's memory monitor, or the kernel.

The kernel chooses by size and by ``oom_score_adj``. With ``--raylet-first`` it takes Ray's own process, as it does
where a raylet has grown, and with that the container.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import ray

MIB = 1024 * 1024


@ray.remote(num_gpus=1, num_cpus=0, max_retries=0)
def eat(seconds: float, *, raylet_first: bool) -> int:
    """Bytes that are written to, so that they really are in memory."""
    if raylet_first:  # the shape leaves the workers at 0, where Ray itself would say 1000
        Path(f"/proc/{os.getppid()}/oom_score_adj").write_text("1000")
    eaten = []
    while True:
        eaten.append(bytearray(b"x" * (20 * MIB)))
        time.sleep(seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raylet-first", action="store_true")
    first = parser.parse_args().raylet_first
    ray.init()
    # Ray's monitor looks four times a second, and has to be faster than the kernel unless it is switched off.
    ray.get(eat.remote(0.02 if first else 0.15, raylet_first=first))
