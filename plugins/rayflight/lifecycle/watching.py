"""``watch: true``: says while a training runs that Ray's counts fell below the shape, or that a device fell ill.

Looks at the snapshots that the follower takes anyway, so it costs no request. Ends nothing: whether a training can go
on is the diagnosis' business. What was found stands in the archive and in the result of the task.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rayflight.backends.base import ClusterRef
from rayflight.findings import Check
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.snapshot.model import Snapshot
from rayflight.specs import ClusterSpec
from rayflight.verification import fallen

_MOST = 200  # entries that are kept: a device that flaps must not fill the archive

Key = tuple[str, str]
Tell = Callable[[Sequence[Check]], Awaitable[None]]


@dataclass
class Watch:
    """One cluster while one training runs. Started anew, it goes on from what stands in the archive."""

    tools: Tools
    flight: Flight
    ref: ClusterRef
    tell: Tell | None = None
    spec: ClusterSpec = field(init=False)
    seen: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        self.spec = self.flight.cluster_spec

    @property
    def found(self) -> Sequence[Mapping[str, Any]]:
        """Every row that failed, with ``since`` and ``until`` (None: it has not healed)."""
        return tuple(self.seen or ())

    async def look(self, snapshot: Snapshot) -> None:
        """Say what is new and what is good again."""
        if not self.spec.verification.watch or snapshot.cluster is None:
            return
        if self.seen is None:
            self.seen = await self._before()
        bad = {_key(row): row for row in fallen(self.spec, snapshot)}
        standing = {(item["id"], item["subject"]): item for item in self.seen if item["until"] is None}
        for key in standing.keys() - bad.keys():
            standing[key]["until"] = snapshot.taken_at
            self.tools.say("Watch: good again: %s: %s", *key)
        for key in bad.keys() - standing.keys():
            row = bad[key]
            self.seen.append({**asdict(row), "since": snapshot.taken_at, "until": None})
            self.tools.say(
                "Watch: %s: %s: %s (expected %s). The training goes on. Next: %s",
                row.id,
                row.subject,
                row.observed,
                row.expected,
                row.next_step,
            )
        new = [bad[key] for key in bad.keys() - standing.keys()]
        if new and self.tell is not None:
            await self.tell(new)
        if standing.keys() != bad.keys():
            del self.seen[:-_MOST]
            await self.tools.archive.write_json(self._name, {"cluster": self.ref.to_dict(), "found": self.seen})

    @property
    def _name(self) -> str:
        return f"{self.flight.folder}/{self.ref.name}/watch.json"

    async def _before(self) -> list[dict[str, Any]]:
        data = await self.tools.archive.read(self._name)
        return list(json.loads(data)["found"]) if data else []


def _key(row: Check) -> Key:
    return row.id, row.subject
