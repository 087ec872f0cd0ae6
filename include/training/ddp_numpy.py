"""Distributed data-parallel training without PyTorch: numpy, Ray Train, and a gradient exchange of its own.

What ``ddp.py`` trains with PyTorch, this trains where there is none, with the same command line and the same proofs
(``ranks.py``). Every rank is a process with a shard of its own; at each step the ranks send their gradients to rank 0
over TCP, which sends back the mean.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from itertools import pairwise
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import ranks  # before ray: it sets what Ray reads when it is imported

# isort: split
import numpy as np
import ray
from numpy.typing import NDArray
from ray.train.collective import broadcast_from_rank_zero
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

Floats = ranks.Floats

BATCH = 256  # over all ranks, so that the steps per epoch are the same for any number of them
LAYERS = (2, 64, 64, ranks.ARMS)
RATE, DECAY_1, DECAY_2 = 0.02, 0.9, 0.999  # Adam


def main() -> int:
    """Train; 0 when the stated accuracy was reached."""
    options = ranks.arguments("Train with numpy, on CPUs.")
    ray.init()
    return ranks.main(options, lambda: trainer(options))


def trainer(options: argparse.Namespace) -> DataParallelTrainer:
    """Ray Train's part."""
    return DataParallelTrainer(
        train_rank,
        train_loop_config=ranks.loop(options),
        scaling_config=ranks.scaling(options),
        run_config=ranks.settings(options),
    )


def train_rank(config: dict[str, Any]) -> str | None:
    """What every rank runs."""
    return ranks.train_rank(Rank, config)


class Network:
    """Three layers with ReLU between them, and Adam. All parameters lie in one vector: one exchange moves all."""

    def __init__(self, number: int) -> None:
        draw = np.random.default_rng(number)
        self.shapes = [shape for size, after in pairwise(LAYERS) for shape in ((size, after), (after,))]
        widths = [size for size in LAYERS[:-1] for _ in range(2)]
        parts = [draw.uniform(-1, 1, shape) / np.sqrt(width) for shape, width in zip(self.shapes, widths, strict=True)]
        self.parameters: Floats = np.concatenate([part.ravel() for part in parts])
        self.first, self.second = np.zeros_like(self.parameters), np.zeros_like(self.parameters)
        self.steps = 0

    def parts(self, vector: Floats) -> list[Floats]:
        """The vector as weights and biases in turn."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), self.shapes, strict=True)]

    def forward(self, points: Floats) -> list[Floats]:
        """The output of each layer, the points first."""
        parts, outputs = self.parts(self.parameters), [points]
        for weights, biases in zip(parts[::2], parts[1::2], strict=True):
            value = outputs[-1] @ weights + biases
            outputs.append(value if biases is parts[-1] else np.maximum(value, 0.0))
        return outputs

    def gradient(self, points: Floats, arms: NDArray[np.int64]) -> tuple[float, Floats]:
        """Mean cross-entropy over these points, and its gradient."""
        outputs = self.forward(points)
        scores = np.exp(outputs[-1] - outputs[-1].max(axis=1, keepdims=True))
        chances = scores / scores.sum(axis=1, keepdims=True)
        loss = float(-np.log(chances[np.arange(len(arms)), arms]).mean())
        delta = chances
        delta[np.arange(len(arms)), arms] -= 1.0
        delta /= len(arms)
        found: list[Floats] = []
        for weights, output in zip(self.parts(self.parameters)[-2::-2], outputs[-2::-1], strict=True):
            found += [delta.sum(axis=0), (output.T @ delta).ravel()]
            delta = (delta @ weights.T) * (output > 0)
        return loss, np.concatenate(found[::-1])

    def step(self, gradient: Floats) -> None:
        """One step of Adam."""
        self.steps += 1
        self.first = DECAY_1 * self.first + (1 - DECAY_1) * gradient
        self.second = DECAY_2 * self.second + (1 - DECAY_2) * gradient**2
        first, second = self.first / (1 - DECAY_1**self.steps), self.second / (1 - DECAY_2**self.steps)
        self.parameters = self.parameters - RATE * first / (np.sqrt(second) + 1e-8)


class Exchange:
    """The ranks' way to each other: all send to rank 0, which answers all. Breaks when a rank is gone."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        self.links: list[Connection[Any, Any]] = []
        host = ray.util.get_node_ip_address()
        listener = Listener((host, 0), backlog=size, authkey=(key := secrets.token_bytes(32))) if number == 0 else None
        address, key = broadcast_from_rank_zero((listener.address, key) if listener else None)
        if listener is None:
            self.links = [Client(tuple(address), authkey=key)]
            self.links[0].send(number)
            return
        found = {link.recv(): link for link in (listener.accept() for _ in range(size - 1))}
        self.links = [found[rank] for rank in sorted(found)]
        listener.close()

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank, in the order of the ranks."""
        if self.number:
            self.links[0].send(value)
            values: list[Any] = self.links[0].recv()
            return values
        values = [value, *(link.recv() for link in self.links)]
        for link in self.links:
            link.send(values)
        return values

    def mean(self, vector: Floats) -> Floats:
        """The mean over all ranks: the same bytes on each, since one rank adds them up."""
        if self.number:
            self.links[0].send_bytes(vector.tobytes())
            return np.frombuffer(self.links[0].recv_bytes(), dtype=vector.dtype)
        total = vector + sum(np.frombuffer(link.recv_bytes(), dtype=vector.dtype) for link in self.links)
        answer = (total / self.size).astype(vector.dtype)
        for link in self.links:
            link.send_bytes(answer.tobytes())
        return answer


class Rank(ranks.Rank):
    """One rank's network, and its way to the others."""

    checkpoint_file = "training.npz"

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.network = Network(config["seed"])
        self.resume()
        self.exchange = Exchange(self.number, self.size)
        self.check_shards("the CPU")

    def gather(self, value: Any) -> list[Any]:
        return self.exchange.gather(value)

    def train_epoch(self) -> float:
        order = np.random.default_rng(self.config["seed"] + self.epoch).permutation(len(self.points))
        losses = []
        for batch in np.array_split(order, max(1, len(order) * self.size // BATCH)):
            loss, gradient = self.network.gradient(self.points[batch], self.arms[batch])
            broken = self.config["break_gradient_exchange"]
            self.network.step(gradient if broken else self.exchange.mean(gradient))
            losses.append(loss)
        return float(np.mean(self.gather(float(np.mean(losses)))))

    def guess(self, points: Floats) -> NDArray[np.int64]:
        best: NDArray[np.int64] = self.network.forward(points)[-1].argmax(axis=1)
        return best

    def parameters(self) -> bytes:
        return self.network.parameters.tobytes()

    def save(self, file: Path) -> None:
        network = self.network
        state = {"parameters": network.parameters, "first": network.first, "second": network.second}
        np.savez(file, epoch=self.epoch, steps=network.steps, **state)

    def load(self, file: Path) -> int:
        network = self.network
        with np.load(file) as state:
            network.parameters, network.first, network.second = state["parameters"], state["first"], state["second"]
            network.steps, epoch = int(state["steps"]), int(state["epoch"])
        return epoch


if __name__ == "__main__":
    sys.exit(main())
