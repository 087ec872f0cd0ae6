"""NCCL time-outs, as PyTorch's watchdog prints them: who waited for what, and which rank was not there. Pure text.

A time-out is a symptom. Ranks that print it were waiting; the one that stopped first is behind in its sequence, waits
in another collective, or printed nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp; the rank stands before, in `[rank3]:` or `[Rank 3]` or `Rank 3]`.
_WATCHDOG = re.compile(
    r"(?:[Rr]ank ?(?P<rank>\d+)\]).*?Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(?P<sequence>\d+), OpType=(?P<operation>\w+)"
)
_WORLD = re.compile(r"world[_ ]size[=: ]+(?P<size>\d+)|\bnranks (?P<ranks>\d+)", re.IGNORECASE)
_FOLDED = re.compile(r"Watchdog caught.*\[repeated \d+x across cluster\]")  # Ray shows one line for many ranks'
_LAST = re.compile(
    r"[Rr]ank ?(?P<rank>\d+)\].*?last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), "
    r"last completed (?:NCCL )?work: -?\d+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """``waiting``: rank to (sequence number, operation). ``enqueued``: rank to the last collective that it entered.

    ``world``: how many ranks there are, where the log says so once and for all (0: not known).
    """

    waiting: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    enqueued: Mapping[int, int] = field(default_factory=dict)
    line: str = ""
    world: int = 0
    folded: bool = False

    @property
    def absent(self) -> tuple[int, ...]:
        """Ranks that printed no time-out where most did: they never waited there. Nothing where Ray folded lines."""
        if self.folded or not self.world > len(self.waiting) > self.world / 2:
            return ()
        return tuple(rank for rank in range(self.world) if rank not in self.waiting)

    @property
    def behind(self) -> tuple[int, ...]:
        """Ranks that provably never entered the collective that the others wait in."""
        if not self.waiting or not self.enqueued:
            return ()
        awaited = max(sequence for sequence, _ in self.waiting.values())
        return tuple(sorted(rank for rank, last in self.enqueued.items() if last < awaited))

    @property
    def different(self) -> Mapping[str, tuple[int, ...]]:
        """Operation to ranks, where ranks wait in different operations of one sequence number."""
        found: dict[int, dict[str, list[int]]] = {}
        for rank, (sequence, operation) in self.waiting.items():
            found.setdefault(sequence, {}).setdefault(operation, []).append(rank)
        mixed = next((ops for ops in found.values() if len(ops) > 1), {})
        return {operation: tuple(sorted(ranks)) for operation, ranks in mixed.items()}


def timeouts(text: str) -> Timeouts | None:
    """What the watchdogs say in this log; None where they say nothing."""
    waiting: dict[int, tuple[int, str]] = {}
    enqueued: dict[int, int] = {}
    first = ""
    for line in text.splitlines():
        found = _WATCHDOG.search(line)
        if found:
            first = first or line
            waiting.setdefault(int(found["rank"]), (int(found["sequence"]), found["operation"]))
        last = _LAST.search(line)
        if last:
            enqueued.setdefault(int(last["rank"]), int(last["enqueued"]))
    sizes = {int(found["size"] or found["ranks"]) for found in _WORLD.finditer(text)}
    return (
        Timeouts(
            waiting=waiting,
            enqueued=enqueued,
            line=first,
            world=sizes.pop() if len(sizes) == 1 else 0,
            folded=_FOLDED.search(text) is not None,
        )
        if waiting
        else None
    )
