"""One change of one thing, in words and as a JSON line. Data only: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

KUBERNETES, RAY, RECORDER = "kubernetes", "ray", "recorder"
EVENT, GAP = "event", "gap"
_BEGINS = {"node": "is in use", "session": "is", "dashboard": "of Ray", "demand": "waits", "GCS": "is"}
_LONGEST = 400  # characters of one value: a scheduler's message about 500 nodes says the same in its first lines


class Key(NamedTuple):
    """What a fact is about: ``aspect`` is empty for the thing itself, else what of it."""

    layer: str
    kind: str
    name: str
    aspect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``at`` is the collector's clock (when it was seen), ``since`` the source's own time where it has one.

    ``before`` None: it was not there; ``after`` None: it is there no more. ``count`` above 1 stands for that many
    alike, the last of them at ``last``; ``alike`` names what they have in common.
    """

    at: str
    key: Key
    before: str | None
    after: str | None
    since: str | None = None
    detail: str = ""
    count: int = 1
    last: str | None = None
    alike: str = ""

    @property
    def when(self) -> str:
        """When it happened, as far as is known: the source's time, unless that lies in the collector's future."""
        return min(self.since, self.at) if self.since else self.at

    @property
    def text(self) -> str:
        """The change in words."""
        return _words(self) + (f" (×{self.count}, last {clock(self.last)})" if self.count > 1 else "")

    def clipped(self) -> Change:
        """With values of bounded length."""
        return replace(self, before=_clip(self.before), after=_clip(self.after), detail=_clip(self.detail) or "")

    def to_dict(self) -> dict[str, Any]:
        """One line of the timeline; what says nothing is left out."""
        line = {
            "at": self.at, "since": self.since, "layer": self.key.layer, "kind": self.key.kind, "object": self.key.name,
            "aspect": self.key.aspect, "before": self.before, "after": self.after, "detail": self.detail,
            "count": self.count if self.count > 1 else None, "last": self.last, "alike": self.alike, "text": self.text,
        }  # fmt: skip
        return {name: value for name, value in line.items() if value not in (None, "")}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Change:
        """The inverse of ``to_dict``. Raises KeyError or TypeError on anything else."""
        rest = {name: line[name] for name in ("since", "detail", "count", "last", "alike") if name in line}
        key = Key(line["layer"], line["kind"], line.get("object", ""), line.get("aspect", ""))
        return cls(at=line["at"], key=key, before=line.get("before"), after=line.get("after"), **rest)


def clock(at: str | None) -> str:
    """The time of day."""
    return at[11:19] if at else "?"


def _clip(text: str | None) -> str | None:
    if text is None or len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 20]} … ({len(text)} characters)"


def _words(change: Change) -> str:
    key = change.key
    if key.kind == EVENT:
        times = f" ×{change.after}" if change.after not in (None, "1") else ""
        return f"{key.name}: {change.detail}{times}"
    if key.kind == GAP:
        return change.detail
    return f"{_subject(key)}{_move(change)}" + (f" ({change.detail})" if change.detail else "")


def _subject(key: Key) -> str:
    return f"{key.kind} {key.name}".rstrip() + (f", {key.aspect}" if key.aspect else "")


def _move(change: Change) -> str:
    before, after = change.before, change.after
    if before is None:
        return f": {after}" if change.key.aspect else f" {_BEGINS.get(change.key.kind, 'appears')}: {after}"
    if after is None:
        return f": no longer {before}" if change.key.aspect else f" is gone (was {before})"
    return f": {before} → {after}"
