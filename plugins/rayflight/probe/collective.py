"""Reductions over all ranks, checked, with their bandwidth, and each rank's own link: NCCL on GPUs, gloo on CPUs.

In a reduction all ranks go at the pace of the slowest, so its time names nobody. The round of sends that follows does:
each rank times what it receives from the rank before, and does nothing else meanwhile, or a slow link would be seen at
both of its ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

_MIB = {"nccl": (8, 256), "gloo": (1, 16)}  # small and large; the large one is what counts
_LINK_MIB = {"nccl": 64, "gloo": 4}
_ROUNDS = {"nccl": 5, "gloo": 2}


def all_reduce(
    address: str, world_size: int, rank: int, backend: str, seconds: float, nodes: list[list[int]] | None = None
) -> dict[str, Any]:
    """All-reduce rank + 1 over all ranks by torch.distributed. Raises what torch raises.

    ``nodes``: which ranks share a node. Where several do, each node also reduces by itself (``node``), all nodes at
    once: it tells links inside a node from the network between them.

    ``bandwidth_gbps`` is the bus bandwidth in gigabytes per second, as nccl-tests define it: bytes moved per rank and
    second, times 2 (n - 1) / n; None for a single rank, which moves nothing. ``from_previous_gbps``: gigabytes per
    second from the rank before.
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
        ring = _Ring(torch, dist, backend, rank, world_size)
        sizes = [ring.reduced(mib) for mib in _MIB[backend]]
        together = _own_node(dist, ring, nodes or [])
        return {
            "backend": backend,
            "ok": all(size["ok"] for size in sizes),
            "world_size": dist.get_world_size(),
            "sum": sizes[-1]["sum"],
            "bandwidth_gbps": sizes[-1]["bandwidth_gbps"],
            "sizes": sizes,
            "node": together,
            "from_previous_gbps": ring.received(_LINK_MIB[backend]) if world_size > 1 else None,
        }
    finally:
        dist.destroy_process_group()


def _own_node(dist: Any, ring: _Ring, nodes: list[list[int]]) -> dict[str, Any] | None:
    """The larger reduction among the ranks of this node. Every rank must make every group, also those of others."""
    shared = [members for members in nodes if len(members) > 1]
    if not shared or len(nodes) < 2:
        return None  # with one node the reduction over all is the same
    groups = {tuple(members): dist.new_group(members) for members in shared}
    mine = next((members for members in groups if dist.get_rank() in members), None)
    if mine is None:
        return None
    found = ring.reduced(_MIB[ring.backend][-1], group=groups[mine], members=mine)
    return {"ok": found["ok"], "ranks": len(mine), "bandwidth_gbps": found["bandwidth_gbps"]}


class _Ring:
    """The ranks of one process group, seen from one of them."""

    def __init__(self, torch: Any, dist: Any, backend: str, rank: int, size: int) -> None:
        self._torch, self._dist = torch, dist
        self._rank, self._size, self.backend = rank, size, backend
        self._device = "cuda:0" if backend == "nccl" else "cpu"
        self._rounds = _ROUNDS[backend]

    def reduced(self, mib: int, group: Any = None, members: tuple[int, ...] = ()) -> dict[str, Any]:
        """One size, over all ranks or those of a group: right on every round, and its bandwidth in the best of them."""
        tensor = self._torch.empty(mib * 2**20 // 4, device=self._device)
        among = members or tuple(range(self._size))
        expected, size = float(sum(rank + 1 for rank in among)), len(among)
        right = True

        def once() -> None:
            self._dist.all_reduce(tensor, group=group)

        best = float("inf")
        for number in range(1 + self._rounds):
            tensor.fill_(self._rank + 1.0)
            spent = self._seconds(once)
            best = best if number == 0 else min(best, spent)  # the first one builds the connections
            right = right and bool((tensor == expected).all())
        moved = tensor.numel() * 4 * 2 * (size - 1) / size
        bandwidth = round(moved / best / 1e9, 3) if moved else None
        return {"mib": mib, "ok": right, "sum": float(tensor[0]), "bandwidth_gbps": bandwidth}

    def received(self, mib: int) -> float:
        """From the rank before, in turns: no rank sends while it receives."""
        tensor = self._torch.zeros(mib * 2**20 // 4, device=self._device)
        before, after = (self._rank - 1) % self._size, (self._rank + 1) % self._size
        best = float("inf")
        for number in range(1 + self._rounds):
            for turn in range(3):
                self._dist.barrier()
                if turn == turn_of(before, self._size):
                    spent = self._seconds(lambda: self._dist.recv(tensor, before))
                    best = best if number == 0 else min(best, spent)  # the first one builds the connections
                elif turn == turn_of(self._rank, self._size):
                    self._seconds(lambda: self._dist.send(tensor, after))
        return round(mib * 2**20 / best / 1e9, 3)

    def _seconds(self, work: Callable[[], None]) -> float:
        if self._device != "cpu":
            self._torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        if self._device != "cpu":
            self._torch.cuda.synchronize()
        return max(time.perf_counter() - begin, 1e-9)


def turn_of(rank: int, size: int) -> int:
    """In which turn a rank of a ring sends to the next one: in each turn every rank sends, receives or rests.

    >>> [turn_of(rank, 4) for rank in range(4)], [turn_of(rank, 5) for rank in range(5)]
    ([0, 1, 0, 1], [0, 1, 0, 1, 2])
    """
    return 2 if size % 2 and rank == size - 1 else rank % 2


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
        "sizes": [],
        "node": None,
        "from_previous_gbps": None,
    }
