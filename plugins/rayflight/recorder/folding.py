"""Keeps a timeline bounded: of what repeats without end the first are told in full, the rest is counted. Pure.

No kind of change is ever lost: the first of its kind is always told, and its count is told again whenever it doubles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayflight.labels import digest
from rayflight.recorder.change import EVENT, GAP, Change

SAME_THING = 12  # alike of one thing that are told in full
SAME_ROLE = 300  # alike of all pods of one group: a large cluster starts once, a crash loop without end
PLENTY = 2_500_000  # bytes after which only the first of a role is told in full
FULL = 4_000_000  # bytes after which only kinds are told apart
END = 4_800_000  # bytes after which nothing is told any more
_REMEMBERED = 1000  # things whose repeats are counted one by one
_NUMBERED = re.compile(r"[0-9A-Za-z]*\d[0-9A-Za-z]*")
_SUFFIX = re.compile(r"-[a-z0-9]{5}$")  # what Kubernetes appends to a generated name

_Count = tuple[int, str]  # how many, and when the first was


class Folding:
    """Decides which changes are written, and as what. ``size`` is what was written already, in bytes."""

    def __init__(self, counts: Mapping[str, Any] | None = None, size: int = 0) -> None:
        self._counts: dict[str, _Count] = {name: (int(n), str(at)) for name, (n, at) in (counts or {}).items()}
        self._things: dict[str, int] = {}
        self._untold: dict[str, Change] = {}
        self.size = size

    def admit(self, change: Change) -> Change | None:
        """The change as it is to be written now; None when it is only counted."""
        if change.key.kind == EVENT and change.before is not None:
            return self._again(change)
        role = self._role(change)
        count, first = self._counts.get(role, (0, change.when))
        count += 1
        self._counts[role] = count, first
        if change.key.kind == GAP and self.size < END:
            return change
        if count <= self._in_full() and self._of_thing(change) <= SAME_THING and self.size < END:
            return change
        folded = replace(change, since=first, count=count, last=change.when, alike=role)
        self._untold[role] = folded
        if count & (count - 1) or self.size >= END:
            return None
        return self._untold.pop(role)

    def _again(self, change: Change) -> Change | None:
        """The same event once more: told whenever its count has doubled."""
        name, count = change.key.aspect, int(change.after or 1)
        self._untold[name] = change
        if count < 2 * self._things.get(name, 0) or self.size >= END:
            return None
        self._remember(name, count)
        return self._untold.pop(name)

    def untold(self) -> Iterator[Change]:
        """What was only counted since it was told last: to be written at the end."""
        while self._untold and self.size < END:
            yield self._untold.pop(next(iter(self._untold)))

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"counts": self._counts, "size": self.size}

    def _in_full(self) -> int:
        return SAME_ROLE if self.size < PLENTY else 1

    def _of_thing(self, change: Change) -> int:
        key = change.key
        thing = digest(*key[:3], "" if key.kind == EVENT else key.aspect, _plain(change, key.name), length=16)
        count = self._things.pop(thing, 0) + 1
        self._remember(thing, count)
        return count

    def _remember(self, thing: str, count: int) -> None:
        self._things[thing] = count
        if len(self._things) > _REMEMBERED:
            del self._things[next(iter(self._things))]

    def _role(self, change: Change) -> str:
        """What alike changes of alike things have in common."""
        key = change.key
        aspect = "" if key.kind == EVENT else _NUMBERED.sub("#", key.aspect)
        if self.size >= FULL:
            return digest(key.layer, key.kind, aspect, change.detail.partition(":")[0], length=12)
        return digest(key.layer, key.kind, _plain_name(key.name), aspect, _plain(change, key.name), length=12)


def _plain(change: Change, name: str) -> str:
    """What is said, without what differs from one to the next."""
    pod = name.rpartition(" ")[2]
    values = ("", "") if change.key.kind == EVENT else (change.before, change.after)
    said = "\x1f".join(str(part) for part in (*values, change.detail))
    return _NUMBERED.sub("#", said.replace(pod, "*") if pod else said)


def _plain_name(name: str) -> str:
    return _NUMBERED.sub("#", _SUFFIX.sub("-*", name))
