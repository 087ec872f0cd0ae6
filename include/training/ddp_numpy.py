"""Distributed data-parallel training without PyTorch: numpy, Ray Train, and a gradient exchange of its own.

What ``ddp.py`` trains with PyTorch, this trains where there is none: the same three spiral arms, the same command line,
the same proofs. Every rank is a process with a shard of its own; at each step the ranks send their gradients to rank 0
over TCP, which sends back the mean. After every epoch the hashes of all ranks' parameters must be equal; the accuracy
on held-out data must reach ``--accuracy``. With RAYFLIGHT_STORAGE_PATH it leaves a checkpoint per epoch there.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import secrets
import sys
import tempfile
import time
from itertools import pairwise
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

# Ray folds lines of several workers that differ in numbers only: that would hide a rank's report.
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
# Ranks share the cores: threads of their own would only wait for each other. Read when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Ray Train looks at its ranks every 2 s; each report waits for that look.
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")

import numpy as np
import ray
import ray.train
from numpy.typing import NDArray
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.collective import broadcast_from_rank_zero
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

Floats = NDArray[np.float64]

ARMS = 3
TRAINING_SAMPLES = 6000
HELD_OUT_SAMPLES = 1500
BATCH = 256  # over all ranks, so that the steps per epoch are the same for any number of them
LAYERS = (2, 64, 64, ARMS)
RATE, DECAY_1, DECAY_2 = 0.02, 0.9, 0.999  # Adam
CHECKPOINT = "training.npz"
MEETING_SECONDS = 60.0


class Fault(Exception):
    """Something is wrong with the training itself; all ranks see it alike, and trying again would not help."""


def main() -> int:
    """Train; 0 when the stated accuracy was reached."""
    options = arguments()
    for number in range(1, options.log_lines + 1):
        print(f"log line {number} of {options.log_lines}", flush=True)
    ray.init()
    try:
        fault = getattr(trainer(options).fit(), "return_value", None)
    except ray.train.TrainingFailedError as error:
        fault = reason(error)
    if fault:
        print(f"Training failed: {fault}", flush=True)
        return int(options.exit_code)
    print(f"Training succeeded: all ranks agree, and the stated accuracy of {options.accuracy} is reached", flush=True)
    return 0


def arguments() -> argparse.Namespace:
    """The command line of ``ddp.py``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=2, help="worker pods")
    parser.add_argument("--gpus-per-worker", type=int, default=0, help="ranks per worker pod (numpy computes on CPUs)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--accuracy", type=float, default=0.95, help="to be reached on held-out data")
    parser.add_argument(
        "--max-failures", type=int, default=3, help="restarts from the last checkpoint after lost workers"
    )
    faults = parser.add_argument_group("for tests")
    faults.add_argument("--break-gradient-exchange", action="store_true", help="no exchange: must fail")
    faults.add_argument("--fail-at-epoch", type=int, default=0)
    faults.add_argument("--fail-once", action="store_true", help="do not fail again once resumed from a checkpoint")
    faults.add_argument("--exit-code", type=int, default=1, help="of a failed training")
    faults.add_argument("--seconds-per-epoch", type=float, default=0.0, help="at least so long")
    faults.add_argument("--log-lines", type=int, default=0)
    return parser.parse_args()


def trainer(options: argparse.Namespace) -> DataParallelTrainer:
    """Ray Train's part: how many ranks, on what, and what it may retry."""
    gpus = options.gpus_per_worker > 0
    storage = os.environ.get("RAYFLIGHT_STORAGE_PATH") or None
    # Ray Train retries whatever a rank raises; a fault is returned instead, where this Ray hands it on.
    returns = "return_value" in {field.name for field in dataclasses.fields(ray.train.Result)}
    config = {**vars(options), "seed": seed(), "checkpoints": storage is not None, "returns": returns}
    return DataParallelTrainer(
        train_rank,
        train_loop_config=config,
        scaling_config=ScalingConfig(
            num_workers=options.workers * max(1, options.gpus_per_worker),
            use_gpu=gpus,
            resources_per_worker={"GPU": 1} if gpus else {"CPU": 0.5},
            placement_strategy="SPREAD",
        ),
        run_config=RunConfig(
            name="ddp",  # the same name in the same place: a later attempt finds the checkpoints
            storage_path=storage,
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            failure_config=failures(options.max_failures),
        ),
    )


def failures(limit: int) -> FailureConfig:
    """Ray Train's own limits are infinite where it sees "preemption" (every SIGTERM) or no room: none of that here."""
    known = {field.name for field in dataclasses.fields(FailureConfig)}
    wanted = {"controller_failure_limit": 5, "max_preemption_failures": limit}
    return FailureConfig(max_failures=limit, **{name: value for name, value in wanted.items() if name in known})


def seed() -> int:
    """The data interval makes the data; without one it is always the same."""
    interval = os.environ.get("RAYFLIGHT_DATA_INTERVAL_START", "")
    print(f"data of interval {interval or '(none)'}", flush=True)
    return int.from_bytes(hashlib.sha256(interval.encode()).digest()[:4], "big")


def reason(error: BaseException) -> str:
    """The last line of what the workers raised: Ray wraps it several times."""
    causes = [*getattr(error, "worker_failures", {}).values(), getattr(error, "controller_failure", None), error]
    text = next(str(cause) for cause in causes if cause is not None)
    return text.strip().splitlines()[-1] if text.strip() else type(error).__name__


def spirals(samples: int, number: int) -> tuple[Floats, NDArray[np.int64]]:
    """Points on three arms with noise, and the arm of each."""
    draw = np.random.default_rng(number)
    arm = draw.integers(0, ARMS, samples)
    radius = 0.15 + 0.85 * draw.random(samples)
    angle = 9 * radius + arm * (2 * np.pi / ARMS) + 0.15 * draw.standard_normal(samples)
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1), arm


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


class Rank:
    """One rank's model, shard and progress."""

    def __init__(self, config: dict[str, Any]) -> None:
        context = ray.train.get_context()
        self.config, self.number, self.size = config, context.get_world_rank(), context.get_world_size()
        points, arms = spirals(TRAINING_SAMPLES, config["seed"])
        length = len(points) // self.size  # equal shards: an exchange needs all ranks at every step
        mine = slice(self.number, length * self.size, self.size)
        self.points, self.arms = points[mine], arms[mine]
        self.held_out = spirals(HELD_OUT_SAMPLES, config["seed"] + 1)
        self.network = Network(config["seed"])
        self.epoch = self._resume()
        self.exchange = Exchange(self.number, self.size)
        self._check_shards()

    def say(self, text: str) -> None:
        """Once, not once per rank; past Ray Train's own `print`, which shows every line twice."""
        if self.number == 0:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def train_epoch(self) -> float:
        """One pass over the own shard; the mean loss over all ranks."""
        order = np.random.default_rng(self.config["seed"] + self.epoch).permutation(len(self.points))
        losses = []
        for batch in np.array_split(order, max(1, len(order) * self.size // BATCH)):
            loss, gradient = self.network.gradient(self.points[batch], self.arms[batch])
            broken = self.config["break_gradient_exchange"]
            self.network.step(gradient if broken else self.exchange.mean(gradient))
            losses.append(loss)
        return float(np.mean(self.exchange.gather(float(np.mean(losses)))))

    def accuracy(self) -> float:
        """On data that no rank trained on."""
        points, arms = self.held_out
        return float((self.network.forward(points)[-1].argmax(axis=1) == arms).mean())

    def check_accuracy(self) -> None:
        """The stated accuracy is part of the job: below it, the training failed."""
        reached = self.accuracy()
        text = f"accuracy {reached:.4f} on {HELD_OUT_SAMPLES} held-out samples, stated {self.config['accuracy']}"
        if reached < self.config["accuracy"]:
            raise Fault(f"{text}: NOT reached after {self.epoch} epochs")
        self.say(f"{text}: reached")

    def check_parameters(self) -> str:
        """All ranks must have the same parameters: anything else is no data-parallel training. The common hash."""
        hashes = self.exchange.gather(hashlib.sha256(self.network.parameters.tobytes()).hexdigest()[:16])
        listed = ", ".join(f"rank {number} {value}" for number, value in enumerate(hashes))
        self.say(f"epoch {self.epoch}: parameter hashes {listed}")
        if len(set(hashes)) > 1:
            raise Fault(f"the ranks' parameters differ after epoch {self.epoch}: {listed}")
        return str(hashes[0])

    def report(self, metrics: dict[str, Any]) -> None:
        """To Ray Train, with a checkpoint from rank 0; then one line for whoever follows the log."""
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if self.config["checkpoints"] and self.number == 0:
                network = self.network
                state = {"parameters": network.parameters, "first": network.first, "second": network.second}
                np.savez(Path(folder, CHECKPOINT), epoch=self.epoch, steps=network.steps, **state)
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report(metrics, checkpoint=checkpoint)
        self.say(f"RAYFLIGHT_PROGRESS {json.dumps(metrics)}")

    def _resume(self) -> int:
        checkpoint = ray.train.get_checkpoint()
        if checkpoint is None:
            return 0
        with checkpoint.as_directory() as folder, np.load(Path(folder, CHECKPOINT)) as state:
            network = self.network
            network.parameters, network.first, network.second = state["parameters"], state["first"], state["second"]
            network.steps, epoch = int(state["steps"]), int(state["epoch"])
        self.say(f"resumed from epoch {epoch}")
        return epoch

    def _check_shards(self) -> None:
        digests = self.exchange.gather(hashlib.sha256(self.points.tobytes()).hexdigest()[:16])
        places = self.exchange.gather(os.getpid())
        listed = ", ".join(f"rank {number} {value}" for number, value in enumerate(digests))
        self.say(
            f"{self.size} ranks in processes {', '.join(map(str, places))} on the CPU, "
            f"{len(self.points)} samples each; shard digests: {listed}"
        )
        if len(set(digests)) < self.size:
            raise Fault(f"two ranks have the same shard: {listed}")


def train_rank(config: dict[str, Any]) -> str | None:
    """What every rank runs: the fault in words, or None."""
    try:
        train(config)
    except Fault as fault:
        if not config["returns"]:
            raise
        return str(fault)
    return None


def train(config: dict[str, Any]) -> None:
    """All epochs that are still to be trained, then the verdict."""
    rank = Rank(config)
    resumed = rank.epoch > 0
    while rank.epoch < config["epochs"]:
        begin = time.monotonic()
        if rank.epoch + 1 == config["fail_at_epoch"] and not (config["fail_once"] and resumed):
            raise Fault(f"asked to fail at epoch {rank.epoch + 1}")
        loss = rank.train_epoch()
        rank.epoch += 1
        hashed = rank.check_parameters()
        time.sleep(max(0.0, config["seconds_per_epoch"] - (time.monotonic() - begin)))
        progress = {"epoch": rank.epoch, "epochs": config["epochs"], "loss": round(loss, 4)}
        rank.report({**progress, "accuracy": round(rank.accuracy(), 4), "parameters": hashed})
    rank.check_accuracy()


if __name__ == "__main__":
    sys.exit(main())
