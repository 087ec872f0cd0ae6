"""One reduction over all ranks, checked, with its bandwidth: NCCL on GPUs, gloo on CPUs."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

_MIB = {"nccl": 256, "gloo": 16}
_ROUNDS = {"nccl": 5, "gloo": 2}


def all_reduce(address: str, world_size: int, rank: int, backend: str, seconds: float) -> dict[str, Any]:
    """All-reduce rank + 1 over all ranks by torch.distributed. Raises what torch raises.

    ``bandwidth_gbps`` is the bus bandwidth in gigabits per second, as nccl-tests define it: bytes moved per rank and
    second, times 2 (n - 1) / n; None for a single rank, which moves nothing.
    """
    os.environ.setdefault("USE_LIBUV", "0")  # a torch built without libuv refuses to start a store otherwise
    import torch  # noqa: PLC0415 - torch need not be there
    import torch.distributed as dist  # noqa: PLC0415

    dist.init_process_group(
        backend,
        init_method=f"tcp://{address}",
        world_size=world_size,
        rank=rank,
        timeout=timedelta(seconds=seconds),
    )
    try:
        device = "cuda:0" if backend == "nccl" else "cpu"
        tensor = torch.empty(_MIB[backend] * 1024 * 1024 // 4, device=device)
        expected = world_size * (world_size + 1) / 2
        right = True
        spent = 0.0
        for _ in range(1 + _ROUNDS[backend]):  # the first one builds the connections
            tensor.fill_(rank + 1.0)
            begin = time.perf_counter()
            dist.all_reduce(tensor)
            if device != "cpu":
                torch.cuda.synchronize()
            last = time.perf_counter() - begin
            spent = last if spent == 0.0 else min(spent, last)
            right = right and bool((tensor == expected).all())
        moved = tensor.numel() * 4 * 8 * 2 * (world_size - 1) / world_size
        return {
            "backend": backend,
            "ok": right,
            "world_size": dist.get_world_size(),
            "sum": float(tensor[0]),
            "bandwidth_gbps": round(moved / spent / 1e9, 3) if moved else None,
        }
    finally:
        dist.destroy_process_group()


def sum_of_parts(parts: list[list[float]], world_size: int) -> dict[str, Any]:
    """The stand-in without torch: every rank has fetched every rank's part through Ray and adds them up."""
    expected = world_size * (world_size + 1) / 2
    sums = {sum(column) for column in zip(*parts, strict=True)}
    return {
        "backend": "ray (no torch: parts fetched through the object store)",
        "ok": sums == {expected},
        "world_size": len(parts),
        "sum": sums.pop() if len(sums) == 1 else None,
        "bandwidth_gbps": None,
    }
