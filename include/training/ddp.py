"""Distributed data-parallel training with PyTorch and Ray Train: a small network learns three spiral arms.

Runs by itself (``python ddp.py --workers 2``), as a Ray job, or flown by Rayflight. Everything that it needs it makes:
the data comes from a seed, and that from the data interval, so that each interval of a backfill has data of its own.

It proves what it claims. Every rank trains on its own shard (the digests are printed and must differ); after every
epoch the parameters of all ranks are hashed and must be equal; the accuracy on held-out data must reach ``--accuracy``.
With RAYFLIGHT_STORAGE_PATH it leaves a checkpoint per epoch there and goes on from the last one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Ray folds lines of several workers that differ in numbers only: that would hide a rank's report.
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
# Ray Train looks at its ranks every 2 s; each report waits for that look.
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, get_device
from torch.nn.parallel import DistributedDataParallel

ARMS = 3
TRAINING_SAMPLES = 6000
HELD_OUT_SAMPLES = 1500
BATCH = 64  # over all ranks, so that the steps per epoch are the same for any number of them
CHECKPOINT = "training.pt"


class Fault(Exception):
    """Something is wrong with the training itself; all ranks see it alike, and trying again would not help."""


def main() -> int:
    """Train; 0 when the stated accuracy was reached."""
    options = arguments()
    for number in range(1, options.log_lines + 1):
        print(f"log line {number} of {options.log_lines}", flush=True)
    # A torch that was built without libuv refuses to start its store unless it is told so.
    ray.init(runtime_env={} if "USE_LIBUV" in os.environ else {"env_vars": {"USE_LIBUV": "0"}})
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
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=2, help="worker pods")
    parser.add_argument("--gpus-per-worker", type=int, default=0, help="ranks per worker pod, one GPU each; 0: CPU")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--accuracy", type=float, default=0.95, help="to be reached on held-out data")
    parser.add_argument(
        "--max-failures", type=int, default=3, help="restarts from the last checkpoint after lost workers"
    )
    faults = parser.add_argument_group("for tests")
    faults.add_argument("--break-gradient-exchange", action="store_true", help="no all-reduce: must fail")
    faults.add_argument("--fail-at-epoch", type=int, default=0)
    faults.add_argument("--fail-once", action="store_true", help="do not fail again once resumed from a checkpoint")
    faults.add_argument("--exit-code", type=int, default=1, help="of a failed training")
    faults.add_argument("--seconds-per-epoch", type=float, default=0.0, help="at least so long")
    faults.add_argument("--log-lines", type=int, default=0)
    return parser.parse_args()


def trainer(options: argparse.Namespace) -> TorchTrainer:
    """Ray Train's part: how many ranks, on what, and what it may retry."""
    gpus = options.gpus_per_worker > 0
    storage = os.environ.get("RAYFLIGHT_STORAGE_PATH") or None
    # Ray Train retries whatever a rank raises; a fault is returned instead, where this Ray hands it on.
    returns = "return_value" in {field.name for field in dataclasses.fields(ray.train.Result)}
    config = {**vars(options), "seed": seed(), "checkpoints": storage is not None, "returns": returns}
    return TorchTrainer(
        train_rank,
        train_loop_config=config,
        torch_config=TorchConfig(backend="nccl" if gpus and cuda_in_workers() else "gloo"),
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


def cuda_in_workers() -> bool:
    """Asked on a GPU, since the driver mostly runs where there is none. Simulated GPUs have no CUDA."""

    @ray.remote(num_cpus=0, num_gpus=1)
    def ask() -> bool:
        return os.environ.get("RAYFLIGHT_SIMULATED_GPU") != "1" and torch.cuda.is_available()

    return bool(ray.get(ask.remote(), timeout=120))


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


def spirals(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on three arms with noise, and the arm of each."""
    generator = torch.Generator().manual_seed(seed)
    arm = torch.randint(0, ARMS, (samples,), generator=generator)
    radius = 0.15 + 0.85 * torch.rand(samples, generator=generator)
    angle = 9 * radius + arm * (2 * math.pi / ARMS) + 0.15 * torch.randn(samples, generator=generator)
    return torch.stack((radius * angle.cos(), radius * angle.sin()), dim=1), arm


class Rank:
    """One rank's model, shard and progress."""

    def __init__(self, config: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        context = ray.train.get_context()
        self.config, self.number, self.size = config, context.get_world_rank(), context.get_world_size()
        # Ray Train goes by its GPU resource alone, and that can be there without CUDA.
        self.device = get_device() if torch.cuda.is_available() else torch.device("cpu")
        points, arms = spirals(TRAINING_SAMPLES, config["seed"])
        length = len(points) // self.size  # equal shards: an all-reduce needs all ranks at every step
        mine = slice(self.number, length * self.size, self.size)
        self.points, self.arms = points[mine], arms[mine]
        self.held_out = spirals(HELD_OUT_SAMPLES, config["seed"] + 1)
        torch.manual_seed(config["seed"])
        network = torch.nn.Sequential(
            torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, ARMS)
        ).to(self.device)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
        self.epoch = self._resume(network)
        self.model = DistributedDataParallel(network) if self.size > 1 else network
        self._check_shards()

    def say(self, text: str) -> None:
        """Once, not once per rank; past Ray Train's own `print`, which shows every line twice."""
        if self.number == 0:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def train_epoch(self) -> float:
        """One pass over the own shard; the mean loss over all ranks."""
        order = torch.randperm(
            len(self.points), generator=torch.Generator().manual_seed(self.config["seed"] + self.epoch)
        )
        total, steps = 0.0, 0
        self.model.train()
        for batch in order.split(max(1, BATCH // self.size)):
            self.optimizer.zero_grad()
            with self._exchange():
                guess = self.model(self.points[batch].to(self.device))
                loss = torch.nn.functional.cross_entropy(guess, self.arms[batch].to(self.device))
                loss.backward()
            self.optimizer.step()
            total, steps = total + loss.item(), steps + 1
        return sum(self._gather(total / steps)) / self.size

    def accuracy(self) -> float:
        """On data that no rank trained on."""
        points, arms = self.held_out
        self.model.eval()
        with torch.no_grad():
            guess = self._network()(points.to(self.device)).argmax(dim=1).cpu()
        return float((guess == arms).float().mean())

    def check_accuracy(self) -> None:
        """The stated accuracy is part of the job: below it, the training failed."""
        reached = self.accuracy()
        text = f"accuracy {reached:.4f} on {HELD_OUT_SAMPLES} held-out samples, stated {self.config['accuracy']}"
        if reached < self.config["accuracy"]:
            raise Fault(f"{text}: NOT reached after {self.epoch} epochs")
        self.say(f"{text}: reached")

    def check_parameters(self) -> str:
        """All ranks must have the same parameters: anything else is no data-parallel training. The common hash."""
        content = hashlib.sha256()
        for tensor in self._network().state_dict().values():
            content.update(tensor.detach().cpu().numpy().tobytes())
        hashes = self._gather(content.hexdigest()[:16])
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
                state = {
                    "epoch": self.epoch,
                    "model": self._network().state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                }
                torch.save(state, Path(folder, CHECKPOINT))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report(metrics, checkpoint=checkpoint)
        self.say(f"RAYFLIGHT_PROGRESS {json.dumps(metrics)}")

    def _resume(self, network: torch.nn.Module) -> int:
        checkpoint = ray.train.get_checkpoint()
        if checkpoint is None:
            return 0
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder, CHECKPOINT), map_location="cpu", weights_only=True)
        network.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.say(f"resumed from epoch {state['epoch']}")
        return int(state["epoch"])

    def _check_shards(self) -> None:
        digest = hashlib.sha256(self.points.numpy().tobytes()).hexdigest()[:16]
        digests = self._gather(digest)
        listed = ", ".join(f"rank {number} {value}" for number, value in enumerate(digests))
        self.say(f"{self.size} ranks on {self.device}, {len(self.points)} samples each; shard digests: {listed}")
        if len(set(digests)) < self.size:
            raise Fault(f"two ranks have the same shard: {listed}")

    def _exchange(self) -> contextlib.AbstractContextManager[Any]:
        broken = self.config["break_gradient_exchange"] and hasattr(self.model, "no_sync")
        return self.model.no_sync() if broken else contextlib.nullcontext()

    def _network(self) -> torch.nn.Module:
        return self.model.module if hasattr(self.model, "module") else self.model

    def _gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


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
