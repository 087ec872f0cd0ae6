"""What the examples ``ddp.py`` and ``ddp_numpy.py`` share: command line, Ray Train's settings, data, and their proofs.

A training proves what it claims. Every rank trains on its own shard (the digests are printed and must differ); after
every epoch the parameters of all ranks are hashed and must be equal; the accuracy on held-out data must reach
``--accuracy``. With RAYFLIGHT_STORAGE_PATH it leaves a checkpoint per epoch there and goes on from the last one.
Knows Ray Train and numpy, and no framework: how a model learns and how ranks talk is the business of `Rank`'s heirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Ray folds lines of several workers that differ in numbers only: that would hide a rank's report.
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
# Ray Train looks at its ranks every 2 s; each report waits for that look.
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")

import numpy as np
import ray
import ray.train
from numpy.typing import NDArray
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

Floats = NDArray[np.float64]

ARMS = 3
TRAINING_SAMPLES = 6000
HELD_OUT_SAMPLES = 1500


class Fault(Exception):
    """Something is wrong with the training itself; all ranks see it alike, and trying again would not help."""


def main(options: argparse.Namespace, trainer: Callable[[], Any]) -> int:
    """Fit the trainer in the Ray that is initialised; 0 when the stated accuracy was reached."""
    for number in range(1, options.log_lines + 1):
        print(f"log line {number} of {options.log_lines} at {time.time():.3f}", flush=True)
        time.sleep(options.seconds_per_line)
    try:
        fault = getattr(trainer().fit(), "return_value", None)
    except ray.train.TrainingFailedError as error:
        fault = reason(error)
    if fault:
        print(f"Training failed: {fault}", flush=True)
        return int(options.exit_code)
    print(f"Training succeeded: all ranks agree, and the stated accuracy of {options.accuracy} is reached", flush=True)
    return 0


def arguments(title: str) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--workers", type=int, default=2, help="worker pods")
    parser.add_argument("--gpus-per-worker", type=int, default=0, help="ranks per worker pod, one GPU each; 0: CPU")
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
    faults.add_argument("--log-lines", type=int, default=0, help="printed before the training, each with its time")
    faults.add_argument("--seconds-per-line", type=float, default=0.0)
    return parser.parse_args()


def scaling(options: argparse.Namespace) -> ScalingConfig:
    """How many ranks, on what."""
    gpus = options.gpus_per_worker > 0
    return ScalingConfig(
        num_workers=options.workers * max(1, options.gpus_per_worker),
        use_gpu=gpus,
        resources_per_worker={"GPU": 1} if gpus else {"CPU": 0.5},
        placement_strategy="SPREAD",
    )


def settings(options: argparse.Namespace) -> RunConfig:
    """Where checkpoints lie, and what Ray Train may retry."""
    return RunConfig(
        name="ddp",  # the same name in the same place: a later attempt finds the checkpoints
        # Without storage only Ray Train's own notes are written: not into the home folder, which is its default.
        storage_path=os.environ.get("RAYFLIGHT_STORAGE_PATH") or str(Path(tempfile.gettempdir(), "ray_results")),
        checkpoint_config=CheckpointConfig(num_to_keep=2),
        failure_config=failures(options.max_failures),
    )


def loop(options: argparse.Namespace) -> dict[str, Any]:
    """What every rank gets to know."""
    # Ray Train retries whatever a rank raises; a fault is returned instead, where this Ray hands it on.
    returns = "return_value" in {field.name for field in dataclasses.fields(ray.train.Result)}
    checkpoints = bool(os.environ.get("RAYFLIGHT_STORAGE_PATH"))
    return {**vars(options), "seed": seed(), "checkpoints": checkpoints, "returns": returns}


def failures(limit: int) -> FailureConfig:
    """Ray Train's own limits are infinite where it sees "preemption" (every SIGTERM) or no room: none of that here."""
    known = {field.name for field in dataclasses.fields(FailureConfig)}
    wanted = {"controller_failure_limit": 5, "max_preemption_failures": limit}
    return FailureConfig(max_failures=limit, **{name: value for name, value in wanted.items() if name in known})


def seed() -> int:
    """The data interval makes the data, so that each interval of a backfill has its own; without one it is the same."""
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


def digest(content: bytes) -> str:
    """Short enough for one line of several ranks."""
    return hashlib.sha256(content).hexdigest()[:16]


class Rank(ABC):
    """One rank's shard and progress. Heirs add the model and the way to the other ranks."""

    checkpoint_file: str

    def __init__(self, config: dict[str, Any]) -> None:
        context = ray.train.get_context()
        self.config, self.number, self.size = config, context.get_world_rank(), context.get_world_size()
        points, arms = spirals(TRAINING_SAMPLES, config["seed"])
        length = len(points) // self.size  # equal shards: an exchange needs all ranks at every step
        mine = slice(self.number, length * self.size, self.size)
        self.points, self.arms = points[mine], arms[mine]
        self.held_out = spirals(HELD_OUT_SAMPLES, config["seed"] + 1)
        self.epoch = 0

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank, in the order of the ranks."""

    @abstractmethod
    def train_epoch(self) -> float:
        """One pass over the own shard; the mean loss over all ranks."""

    @abstractmethod
    def guess(self, points: Floats) -> NDArray[np.int64]:
        """The arm that the model sees for each point."""

    @abstractmethod
    def parameters(self) -> bytes:
        """All parameters of the model."""

    @abstractmethod
    def save(self, file: Path) -> None:
        """Epoch, parameters and optimizer."""

    @abstractmethod
    def load(self, file: Path) -> int:
        """Take up what `save` left; the epoch it was saved after."""

    def say(self, text: str) -> None:
        """Once, not once per rank; past Ray Train's own `print`, which shows every line twice."""
        if self.number == 0:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def accuracy(self) -> float:
        """On data that no rank trained on."""
        points, arms = self.held_out
        return float((self.guess(points) == arms).mean())

    def check_accuracy(self) -> None:
        """The stated accuracy is part of the job: below it, the training failed."""
        reached = self.accuracy()
        text = f"accuracy {reached:.4f} on {HELD_OUT_SAMPLES} held-out samples, stated {self.config['accuracy']}"
        if reached < self.config["accuracy"]:
            raise Fault(f"{text}: NOT reached after {self.epoch} epochs")
        self.say(f"{text}: reached")

    def check_parameters(self) -> str:
        """All ranks must have the same parameters: anything else is no data-parallel training. The common hash."""
        hashes = self.gather(digest(self.parameters()))
        listed = ", ".join(f"rank {number} {value}" for number, value in enumerate(hashes))
        self.say(f"epoch {self.epoch}: parameter hashes {listed}")
        if len(set(hashes)) > 1:
            raise Fault(f"the ranks' parameters differ after epoch {self.epoch}: {listed}")
        return str(hashes[0])

    def check_shards(self, device: str) -> None:
        """Each rank has data of its own."""
        digests, places = self.gather(digest(self.points.tobytes())), self.gather(os.getpid())
        listed = ", ".join(f"rank {number} {value}" for number, value in enumerate(digests))
        self.say(
            f"{self.size} ranks in processes {', '.join(map(str, places))} on {device}, "
            f"{len(self.points)} samples each; shard digests: {listed}"
        )
        if len(set(digests)) < self.size:
            raise Fault(f"two ranks have the same shard: {listed}")

    def report(self, metrics: dict[str, Any]) -> None:
        """To Ray Train, with a checkpoint from rank 0; then one line for whoever follows the log."""
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if self.config["checkpoints"] and self.number == 0:
                self.save(Path(folder, self.checkpoint_file))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report(metrics, checkpoint=checkpoint)
        self.say(f"RAYFLIGHT_PROGRESS {json.dumps(metrics)}")

    def resume(self) -> None:
        """Go on after the last checkpoint, where there is one."""
        checkpoint = ray.train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                self.epoch = self.load(Path(folder, self.checkpoint_file))
            self.say(f"resumed from epoch {self.epoch}")


def train_rank(make: Callable[[dict[str, Any]], Rank], config: dict[str, Any]) -> str | None:
    """What every rank runs: the fault in words, or None."""
    try:
        train(make(config))
    except Fault as fault:
        if not config["returns"]:
            raise
        return str(fault)
    return None


def train(rank: Rank) -> None:
    """All epochs that are still to be trained, then the verdict."""
    config, resumed = rank.config, rank.epoch > 0
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
