"""Distributed data-parallel training with PyTorch and Ray Train: a small network learns three spiral arms.

Runs by itself (``python ddp.py --workers 2``), as a Ray job, or flown by Rayflight. Everything that it needs it makes:
the data comes from a seed, and that from the data interval. What it proves of itself stands in ``ranks.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import ranks  # before ray: it sets what Ray reads when it is imported

# isort: split
import numpy as np
import ray
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from ray.train.torch import TorchConfig, TorchTrainer, get_device
from torch.nn.parallel import DistributedDataParallel

BATCH = 64  # over all ranks, so that the steps per epoch are the same for any number of them


def main() -> int:
    """Train; 0 when the stated accuracy was reached."""
    options = ranks.arguments("Train with PyTorch's DistributedDataParallel.")
    # A torch that was built without libuv refuses to start its store unless it is told so.
    ray.init(runtime_env={} if "USE_LIBUV" in os.environ else {"env_vars": {"USE_LIBUV": "0"}})
    return ranks.main(options, lambda: trainer(options))


def trainer(options: argparse.Namespace) -> TorchTrainer:
    """Ray Train's part."""
    return TorchTrainer(
        train_rank,
        train_loop_config=ranks.loop(options),
        torch_config=TorchConfig(backend="nccl" if options.gpus_per_worker and cuda_in_workers() else "gloo"),
        scaling_config=ranks.scaling(options),
        run_config=ranks.settings(options),
    )


def cuda_in_workers() -> bool:
    """Asked on a GPU, since the driver mostly runs where there is none. Simulated GPUs have no CUDA."""

    @ray.remote(num_cpus=0, num_gpus=1)
    def ask() -> bool:
        return os.environ.get("RAYFLIGHT_SIMULATED_GPU") != "1" and torch.cuda.is_available()

    return bool(ray.get(ask.remote(), timeout=120))


def train_rank(config: dict[str, Any]) -> str | None:
    """What every rank runs."""
    return ranks.train_rank(Rank, config)


class Rank(ranks.Rank):
    """One rank's network, and PyTorch's way to the others."""

    checkpoint_file = "training.pt"

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        torch.set_num_threads(1)
        # Ray Train goes by its GPU resource alone, and that can be there without CUDA.
        self.device = get_device() if torch.cuda.is_available() else torch.device("cpu")
        torch.manual_seed(config["seed"])
        self.network = torch.nn.Sequential(
            torch.nn.Linear(2, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, ranks.ARMS),
        ).to(self.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.005)
        self.resume()
        self.model = DistributedDataParallel(self.network) if self.size > 1 else self.network
        self.check_shards(str(self.device))

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def train_epoch(self) -> float:
        order = torch.randperm(
            len(self.points), generator=torch.Generator().manual_seed(self.config["seed"] + self.epoch)
        )
        points, arms = self._on_device(self.points), torch.from_numpy(self.arms).to(self.device)
        total, steps = 0.0, 0
        self.model.train()
        for batch in order.split(max(1, BATCH // self.size)):
            self.optimizer.zero_grad()
            with self._exchange():
                loss = torch.nn.functional.cross_entropy(self.model(points[batch]), arms[batch])
                loss.backward()
            self.optimizer.step()
            total, steps = total + loss.item(), steps + 1
        return float(sum(self.gather(total / steps)) / self.size)

    def guess(self, points: ranks.Floats) -> NDArray[np.int64]:
        self.model.eval()
        with torch.no_grad():
            best: NDArray[np.int64] = self.network(self._on_device(points)).argmax(dim=1).cpu().numpy()
        return best

    def parameters(self) -> bytes:
        return b"".join(tensor.detach().cpu().numpy().tobytes() for tensor in self.network.state_dict().values())

    def save(self, file: Path) -> None:
        state = {"model": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({"epoch": self.epoch, **state}, file)

    def load(self, file: Path) -> int:
        state = torch.load(file, map_location="cpu", weights_only=True)
        self.network.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return int(state["epoch"])

    def _on_device(self, points: ranks.Floats) -> torch.Tensor:
        return torch.from_numpy(points).to(self.device, torch.float32)

    def _exchange(self) -> contextlib.AbstractContextManager[Any]:
        broken = self.config["break_gradient_exchange"] and hasattr(self.model, "no_sync")
        return self.model.no_sync() if broken else contextlib.nullcontext()


if __name__ == "__main__":
    sys.exit(main())
