"""A small training on several ranks whose last rank goes wrong on purpose; what goes wrong is each drill's own part.

Needs Ray Train alone: no PyTorch, no numpy, no GPU. The ranks exchange numbers over TCP through rank 0, as a ring or a
tree would: who does not come to a collective lets all others wait in it. Nothing here ends by itself once it hangs.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

# Ray folds lines of several workers that differ in numbers only.
os.environ.setdefault("RAY_DEDUP_LOGS", "0")

import ray
import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.collective import broadcast_from_rank_zero
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

STEPS = 6
SECONDS_PER_STEP = 0.3
WRONG_AT = 4  # the step in which the last rank goes wrong


class Exchange:
    """The ranks' way to each other. A message belongs to one collective; another one's waits until it is wanted."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.early = number, dict[tuple[int, str], list[float]]()
        host = ray.util.get_node_ip_address()
        listener = Listener((host, 0), backlog=size, authkey=(key := secrets.token_bytes(32))) if number == 0 else None
        address, key = broadcast_from_rank_zero((listener.address, key) if listener else None)
        self.links: list[Connection[Any, Any]] = []
        if listener is None:
            self.links = [Client(tuple(address), authkey=key)]
        else:
            self.links = [listener.accept() for _ in range(size - 1)]

    def all_reduce(self, value: float, tag: str) -> float:
        """The sum over all ranks."""
        return self._collect(value, f"all_reduce {tag}")

    def barrier(self, tag: str) -> None:
        """Nobody goes on before all are here."""
        self._collect(0.0, f"barrier {tag}")

    def _collect(self, value: float, tag: str) -> float:
        if self.number:
            self.links[0].send((tag, value))
            return self._receive(0, tag)
        total = value + sum(self._receive(place, tag) for place in range(len(self.links)))
        for link in self.links:
            link.send((tag, total))
        return total

    def _receive(self, place: int, tag: str) -> float:
        while not self.early.get((place, tag)):
            said, value = self.links[place].recv()
            self.early.setdefault((place, said), []).append(value)
        return self.early[place, tag].pop()


class Rank:
    """One rank. A drill overrides the one thing that goes wrong; ``bad`` says whether this rank is to do it now."""

    def __init__(self, stall_seconds: float) -> None:
        context = ray.train.get_context()
        self.number, self.size = context.get_world_rank(), context.get_world_size()
        self.stall_seconds, self.step = stall_seconds, 0
        self.exchange = Exchange(self.number, self.size)

    @property
    def bad(self) -> bool:
        """Whether this is the last rank in the step in which it goes wrong."""
        return self.step == WRONG_AT and self.number == self.size - 1

    def batches(self) -> Iterator[float]:
        """The input data."""
        for _ in range(STEPS):
            yield 1.0

    def evaluate(self) -> None:
        """After each step, all together."""
        self.exchange.barrier(f"after step {self.step}")

    def train(self) -> None:
        """All steps; rank 0 reports each."""
        for number, batch in enumerate(self.batches(), start=1):
            self.step = number
            time.sleep(SECONDS_PER_STEP)
            total = self.exchange.all_reduce(batch, f"step {number}")
            self.evaluate()
            if self.number == 0:
                report = {"step": number, "steps": STEPS, "sum": total}
                sys.stdout.write(f"RAYFLIGHT_PROGRESS {json.dumps(report)}\n")
                sys.stdout.flush()


def fly(make: Callable[[float], Rank], description: str | None) -> int:
    """The command line of every drill; 0 when the training came to its end after all."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--gpus-per-rank", type=int, default=0, help="reserved, not used: the drill computes on CPUs")
    parser.add_argument("--stall-seconds", type=float, default=1e9, help="then it goes on: slow, not stuck")
    options = parser.parse_args()

    def train_rank(config: dict[str, Any]) -> None:
        make(config["stall_seconds"]).train()

    ray.init()
    trainer = DataParallelTrainer(
        train_rank,
        train_loop_config={"stall_seconds": options.stall_seconds},
        scaling_config=ScalingConfig(
            num_workers=options.ranks,
            use_gpu=options.gpus_per_rank > 0,
            resources_per_worker={"GPU": options.gpus_per_rank} if options.gpus_per_rank else {"CPU": 0.1},
            placement_strategy="SPREAD",
        ),
        run_config=RunConfig(name="hang-drill", failure_config=FailureConfig(max_failures=0)),
    )
    trainer.fit()
    print("Training succeeded", flush=True)
    return 0
