"""Asks Ray for more than there is: ``gpus`` a task with 64 GPUs, ``train`` a Ray Train group of 64 workers."""

from __future__ import annotations

import sys

import ray

MANY = 64


@ray.remote(num_gpus=MANY)
def never() -> None:
    """No Ray node can run this."""


def train() -> None:
    """A placement group that no set of nodes can hold."""
    import ray.train
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    scaling = ray.train.ScalingConfig(num_workers=MANY, use_gpu=True)
    DataParallelTrainer(lambda: None, scaling_config=scaling).fit()


if __name__ == "__main__":
    ray.init()
    if sys.argv[1:] == ["train"]:
        train()
    else:
        ray.get(never.remote())
