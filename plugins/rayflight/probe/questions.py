"""Asks all ranks the same questions in turn, each with a deadline, and keeps the answers per rank.

The collective comes last: a rank that hangs in it can answer nothing more. A rank that fails a question is asked the
others all the same; one that did not answer within a deadline is asked nothing more. What needs all ranks is skipped
when one of them is silent, and says so.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.util.placement_group import remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from .aftermath import aftermath
from .placement import NoRoomError, Seat, place
from .rank import Rank

SCHEMA = 1  # of the whole document; read by verification/probed.py
_START_SECONDS = 60.0  # a cold image and the import of torch
_STEP_SECONDS = 30.0
_AFTER_SECONDS = 15.0
_CLOCK_SECONDS = 2.0
_LEAST_SECONDS = 5.0  # with less time left nobody is asked: whoever is slower is not silent
_CLOCK_ROUNDS = 3  # the quickest answer has the smallest error
_NO_ANSWER, _SKIPPED = "did not answer within", "skipped"  # also in verification/probed.py
_ANSWERS = [
    "rank",
    "pod",
    "pid",
    "ray_node_id",
    "node_ip",
    "gpu_ids",
    "cuda_visible_devices",
    "devices",
    "nvml",
    "simulated",
    "shm_bytes",
    "memory_limit_bytes",
    "torch",
    "torch_cuda",
    "torch_archs",
    "cudnn",
    "cuda",
    "python",
    "ray",
    "clock",
    "shared_memory",
    "head",
    "disk",
    "copy",
    "compute",
    "collective",
    "object_store",
    "storage",
    "failed",
    "error",
]


class Questions:
    """One probe of one set of seats."""

    def __init__(self, seats: list[Seat], deadline: float, step_seconds: float = _STEP_SECONDS) -> None:
        self.deadline = deadline
        self._step = step_seconds
        self.ranks: list[dict[str, Any]] = [
            {**dict.fromkeys(_ANSWERS), "rank": rank, "ray_node_id": seat.node_id, "node_ip": seat.node_ip}
            for rank, seat in enumerate(seats)
        ]
        self.placement: dict[str, Any] = {"ok": False, "bundles": len(seats), "error": None}
        self.seconds: dict[str, float] = {}
        self._seats = seats
        self.after: dict[str, Any] = {}
        self._group: Any = None
        self._actors: list[Any] = []
        self._silent: set[int] = set()

    def seat(self, seconds: float) -> bool:
        """Place one rank per seat."""
        if not self._seats:
            self.placement["error"] = "Ray offers no node for a rank"
            return False
        with self._timed("placement"):
            try:
                self._group = place(self._seats, min(seconds, self._left()))
            except NoRoomError as error:
                self.placement["error"] = str(error)
                return False
        self.placement["ok"] = True
        actor = ray.remote(Rank)
        self._actors = [
            actor.options(
                num_cpus=0,
                num_gpus=1 if seat.gpu else 0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index),
            ).remote(index)
            for index, seat in enumerate(self._seats)
        ]
        return True

    def ask_all(self, storage_path: str) -> None:
        """All questions; the answers are in ``ranks``."""
        for question, seconds in (("describe", _START_SECONDS), ("surroundings", self._step)):
            for rank, answer in zip(self.ranks, self._ask(question, seconds), strict=True):
                rank.update(answer or {})
        self._clocks()
        self._object_store()
        if storage_path:
            self._storage(storage_path)
        self._keep("copy", self._ask("copy", self._step))
        self._keep("compute", self._ask("compute", self._step))
        self._collective()

    def leave(self) -> None:
        """Give everything back: other jobs wait for these GPUs."""
        for actor in self._actors:
            ray.kill(actor)
        if self._group is not None:
            remove_placement_group(self._group)
        self._look_back()

    def result(self, total: float) -> dict[str, Any]:
        """Plain data."""
        return {
            "schema": SCHEMA,
            "world_size": len(self.ranks),
            "placement": self.placement,
            "seconds": {**self.seconds, "total": round(total, 3)},
            "ranks": self.ranks,
            "after": self.after,
        }

    def _clocks(self) -> None:
        """How far each rank's clock is from the driver's, which is the head's: half a round trip is the error."""
        with self._timed("clock"):
            for number, actor in enumerate(self._actors):
                rounds = [] if number in self._silent else [self._clock(actor) for _ in range(_CLOCK_ROUNDS)]
                answered = [found for found in rounds if found is not None]
                if answered:
                    offset, error = min(answered, key=lambda found: found[1])
                    self.ranks[number]["clock"] = {"offset_seconds": round(offset, 4), "error_seconds": round(error, 4)}

    def _clock(self, actor: Any) -> tuple[float, float] | None:
        begin = time.time()
        (answer, error), *_ = self._results([actor.clock.remote()], _CLOCK_SECONDS)
        end = time.time()
        return None if error else (answer - (begin + end) / 2, (end - begin) / 2)

    def _look_back(self) -> None:
        """On each node with a silent rank or with devices that NVML counts: is everything as it was?"""
        looks: dict[str, list[int]] = {}
        for number, rank in enumerate(self.ranks):
            real = (rank["nvml"] or {}).get("ok") is not None
            if self._actors and (real or number in self._silent):
                pids = looks.setdefault(rank["ray_node_id"], [])
                pids.extend([rank["pid"]] if rank["pid"] else [])
        if not looks:
            return
        with self._timed("aftermath"):
            task = ray.remote(aftermath)
            refs = [
                task.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                    pids, devices=True
                )
                for node, pids in looks.items()
            ]
            for node, (answer, error) in zip(looks, self._results(refs, _AFTER_SECONDS), strict=True):
                self.after[node] = answer or {"error": error}

    def _object_store(self) -> None:
        """Each rank fetches a block that was put on another node (the node before, where there are several)."""
        puts = self._ask("put", self._step)
        first = {rank["ray_node_id"]: number for number, rank in reversed(list(enumerate(self.ranks)))}
        nodes = sorted(first, key=lambda node: first[node])

        def arguments(rank: int) -> tuple[Any, ...] | None:
            source = first[nodes[nodes.index(self.ranks[rank]["ray_node_id"]) - 1]]
            return (*puts[source], self.ranks[source]["ray_node_id"]) if puts[source] else None

        self._keep("object_store", self._ask("get", self._step, arguments))

    def _storage(self, path: str) -> None:
        nonce, size = secrets.token_hex(8), len(self.ranks)
        wrote = self._ask("write", self._step, lambda _: (path, nonce))
        read = self._ask("read_all", self._step, lambda _: (path, nonce, size))
        answers = zip(wrote, read, strict=True)
        self._keep("storage", [{"path": path, "wrote": w is not None, "read_all": r is True} for w, r in answers])
        self._results([self._actors[0].clear.remote(path, nonce, size)], self._step)

    def _collective(self) -> None:
        if self._silent or any(rank["python"] is None for rank in self.ranks):
            return self._fault_all("collective", f"{_SKIPPED}, since not every rank answered")
        if any(rank["torch"] is None for rank in self.ranks):
            parts = [actor.part.remote() for actor in self._actors]
            return self._keep("collective", self._ask("add", self._step, lambda _: tuple(parts)))
        given: dict[int, tuple[Any, ...]] = {}
        seconds = max(1.0, min(_START_SECONDS, self._left() - 2))
        # A cluster of GPU and CPU groups: NCCL is proven among the GPUs, gloo among the rest.
        for cuda in {bool(rank["cuda"]) for rank in self.ranks}:
            members = [number for number, rank in enumerate(self.ranks) if bool(rank["cuda"]) is cuda]
            (address, error), *_ = self._results([self._actors[members[0]].meeting_point.remote()], self._step)
            if error:
                return self._fault_all("collective", f"rank {members[0]} has no address to meet at: {error}")
            places: dict[str, list[int]] = {}
            for position, number in enumerate(members):
                places.setdefault(self.ranks[number]["ray_node_id"], []).append(position)
            for position, number in enumerate(members):
                backend = "nccl" if cuda else "gloo"
                given[number] = (address, len(members), position, backend, seconds, list(places.values()))
        return self._keep("collective", self._ask("all_reduce", seconds + 2, given.__getitem__))

    def _ask(
        self, question: str, seconds: float, arguments: Callable[[int], tuple[Any, ...] | None] = lambda _: ()
    ) -> list[Any]:
        """Ask every rank; None for those without an answer, whose error is then set."""
        late = self._left() < min(seconds, _LEAST_SECONDS)
        reason = "the time of the probe is used up" if late else "another rank gave no answer"
        with self._timed(question):
            given = [None if late or n in self._silent else arguments(n) for n in range(len(self._actors))]
            asked = [number for number, values in enumerate(given) if values is not None]
            refs = [getattr(self._actors[number], question).remote(*(given[number] or ())) for number in asked]
            answers: list[Any] = [None] * len(self._actors)
            for number, (answer, error) in zip(asked, self._results(refs, seconds), strict=True):
                answers[number] = answer
                if error and error.startswith(_NO_ANSWER):
                    self._silent.add(number)
                    self._fault(self.ranks[number], question, f"{error}; {_place(self.ranks[number])}")
                elif error:
                    self._fault(self.ranks[number], question, error)
            for number in set(range(len(self._actors))) - set(asked) - self._silent:
                self._fault(self.ranks[number], question, f"{_SKIPPED}, since {reason}")
            return answers

    def _results(self, refs: list[Any], seconds: float) -> list[tuple[Any, str | None]]:
        if not refs:
            return []
        limit = max(0.1, min(seconds, self._left()))
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=limit)
        return [_result(ref) if ref in ready else (None, f"{_NO_ANSWER} {limit:.0f} s") for ref in refs]

    def _keep(self, name: str, answers: list[Any]) -> None:
        for rank, answer in zip(self.ranks, answers, strict=True):
            rank[name] = answer

    def _fault_all(self, question: str, text: str) -> None:
        for rank in self.ranks:
            self._fault(rank, question, text)

    @staticmethod
    def _fault(rank: dict[str, Any], question: str, text: str) -> None:
        """Once by question for the rows, and once in a line for people."""
        rank["failed"] = {**(rank["failed"] or {}), question: text}
        rank["error"] = f"{rank['error']}; {question}: {text}" if rank["error"] else f"{question}: {text}"

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begin, 3)


def _place(rank: dict[str, Any]) -> str:
    """Where a rank is, as far as it could say it itself."""
    devices = {str(at): str(device.get("uuid")) for at, device in enumerate(rank["devices"] or [])}
    own = [devices.get(str(number), str(number)) for number in rank["gpu_ids"] or []]
    gpu = f", GPU {', '.join(own)}" if own else ""
    return f"it ran on pod {rank['pod'] or 'unknown'}, Ray node {rank['node_ip']}{gpu}"


def _result(ref: Any) -> tuple[Any, str | None]:
    try:
        return ray.get(ref), None
    except Exception as error:  # noqa: BLE001 - whatever the rank raised (its own type included) is that rank's result
        cause = getattr(error, "cause", None) or error
        lines = str(cause).strip().splitlines()
        return None, f"{type(cause).__name__}: {lines[-1] if lines else ''}"[:500]
