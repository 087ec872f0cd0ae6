"""One rank: an actor that holds one GPU (or one CPU node) and measures from there. The driver asks, step by step."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any

import ray

from .child import in_child
from .collective import all_reduce, sum_of_parts
from .compute import compute
from .machine import describe
from .storage import Place
from .surroundings import disk, head, shared_memory

_BLOCK = 1024 * 1024
_COPY_SECONDS = 25.0
_RAY_FOLDER = "/tmp/ray"  # noqa: S108 - where Ray writes unless told otherwise


class Rank:
    """Answers one question per method. Raising is fine: the driver turns it into this rank's error."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        # Importing torch takes seconds: start now, on all ranks at once, while the other steps go on.
        threading.Thread(target=_torch, daemon=True).start()

    def describe(self) -> dict[str, Any]:
        """Who and where this rank is."""
        torch = _torch()
        cuda = bool(torch and torch.cuda.is_available())
        return {
            **describe(),
            "rank": self.rank,
            "ray_node_id": ray.get_runtime_context().get_node_id(),
            "node_ip": ray.util.get_node_ip_address(),
            "gpu_ids": ray.get_gpu_ids(),
            "torch": getattr(torch, "__version__", None),
            "cuda": cuda,
            "torch_cuda": torch.version.cuda if torch else None,
            "torch_archs": torch.cuda.get_arch_list() if cuda else None,
            "cudnn": torch.backends.cudnn.version() if cuda else None,
            "ray": ray.__version__,
        }

    def clock(self) -> float:
        """This node's time."""
        return time.time()

    def surroundings(self) -> dict[str, Any]:
        """Shared memory, the head by name, the disk."""
        address = ray.get_runtime_context().gcs_address
        return {"shared_memory": shared_memory(), "head": head(address), "disk": disk(_session_folder())}

    def copy(self) -> dict[str, Any] | None:
        """The CUDA driver's context, memory and copies; None for a rank without a GPU, or with a simulated one."""
        simulated = os.environ.get("RAYFLIGHT_SIMULATED_GPU") == "1"
        return None if simulated or not ray.get_gpu_ids() else in_child("cuda", _COPY_SECONDS)

    def put(self) -> tuple[list[Any], str]:
        """Put a block into this node's object store; (its reference in a list, so that it stays one; its digest)."""
        block = secrets.token_bytes(_BLOCK)
        return [ray.put(block)], hashlib.sha256(block).hexdigest()

    def get(self, boxed: list[Any], digest: str, from_node: str) -> dict[str, Any]:
        """Fetch another node's block and compare."""
        block = ray.get(boxed[0])
        return {"put_get_ok": hashlib.sha256(block).hexdigest() == digest, "from_node": from_node}

    def write(self, path: str, nonce: str) -> str:
        """Write this rank's file."""
        Place(path, nonce).write(self.rank, f"{nonce} {self.rank}")
        return path

    def read_all(self, path: str, nonce: str, world_size: int) -> bool:
        """Read the files of all ranks: True when each says what its rank wrote."""
        place = Place(path, nonce)
        return all(place.read(rank) == f"{nonce} {rank}" for rank in range(world_size))

    def clear(self, path: str, nonce: str, world_size: int) -> None:
        """Remove the probe's files."""
        Place(path, nonce).clear(world_size)

    def compute(self) -> dict[str, Any]:
        """A checked product on this rank's device."""
        return compute(seed=self.rank)

    def meeting_point(self) -> str:
        """A free address on this node where the ranks can meet."""
        with socket.socket() as free:
            free.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def all_reduce(
        self,
        address: str,
        world_size: int,
        position: int,
        backend: str,
        seconds: float,
        nodes: list[list[int]] | None = None,
    ) -> dict[str, Any]:
        """A checked reduction by torch.distributed; ``position`` is this rank's number among those that take part."""
        return all_reduce(address, world_size, position, backend, seconds, nodes)

    def part(self) -> list[float]:
        """This rank's part of the reduction without torch."""
        return [self.rank + 1.0] * 1024

    def add(self, *parts: list[float]) -> dict[str, Any]:
        """The reduction without torch."""
        return sum_of_parts(list(parts), len(parts))


def _session_folder() -> str:
    """Where Ray writes on this node: its worker processes have a log there as their standard output."""
    log = Path("/proc/self/fd/1")
    return str(log.resolve().parent) if log.resolve().is_file() else _RAY_FOLDER


def _torch() -> Any:
    """Torch, or None where it is not installed. A broken installation raises, and shows as this rank's error."""
    os.environ.setdefault("USE_LIBUV", "0")
    if importlib.util.find_spec("torch") is None:
        return None
    return importlib.import_module("torch")
