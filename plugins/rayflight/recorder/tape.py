"""What is known of one recorded cluster, and what is still to be written of it. Pure: the Recorder does the I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rayflight.masking import Masker, masked
from rayflight.recorder.change import EVENT, GAP, KUBERNETES, RECORDER, Change, Key, clock
from rayflight.recorder.compare import compare
from rayflight.recorder.facts import Fact, Facts
from rayflight.recorder.folding import Folding
from rayflight.snapshot.model import Snapshot
from rayflight.snapshot.times import seconds_between

BLIND_SECONDS = 60.0  # without a look for longer than this, something may have come and gone unseen
_EVENTS_LIVE = 3600.0  # seconds for which the API keeps events
_WAITING = 5000  # lines that wait for an archive that cannot be written


@dataclass
class Tape:
    """One cluster's recording: ``at`` is the last look, ``lines`` are not yet written."""

    masker: Masker
    facts: Facts = field(default_factory=dict)
    at: str | None = None
    folding: Folding = field(default_factory=Folding)
    lines: list[bytes] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    began: bool = False

    def see(self, seen: Snapshot) -> None:
        """Compare with the last look and note what changed."""
        gap = self._gap(seen)
        self.facts, found = compare(self.facts, seen)
        self._note([*gap, *found])
        self.at, self.began = max(self.at or "", seen.taken_at), True

    def finish(self) -> None:
        """Note what was only counted so far."""
        self._put(self.folding.untold())

    def checkpoint(self) -> bytes:
        """What the next recorder begins with."""
        plain = [[*key, *fact[:2]] for key, fact in self.facts.items() if key.kind != EVENT]
        events = {key.aspect: fact.value for key, fact in self.facts.items() if key.kind == EVENT}
        state = {"at": self.at, "facts": plain, "events": events, "errors": self.errors, **self.folding.to_dict()}
        return json.dumps(masked(state, self.masker), separators=(",", ":")).encode()

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint. Raises KeyError, TypeError or ValueError on anything else."""
        facts = {Key(*item[:4]): Fact(item[4], item[5]) for item in state["facts"]}
        events = {Key(KUBERNETES, EVENT, "", one): Fact(str(count)) for one, count in state["events"].items()}
        folding = Folding(state["counts"], int(state["size"]))
        self.facts, self.at, self.folding = facts | events, str(state["at"]), folding
        self.errors = [str(error) for error in state["errors"]]

    def _gap(self, seen: Snapshot) -> Iterable[Change]:
        created = seen.cluster.created_at if seen.cluster else None
        before = self.at or created
        missed = seconds_between(before, seen.taken_at) or 0.0
        if before is None or missed <= BLIND_SECONDS:
            return []
        what = "nobody looked" if self.at else "the recording begins after the cluster did: nobody looked"
        lost = "" if missed <= _EVENTS_LIVE else "; events older than an hour are lost"
        text = (
            f"{what} from {clock(before)} to {clock(seen.taken_at)} ({missed:.0f} s): "
            f"its events are told from the API, states between are unknown{lost}"
        )
        return [
            Change(at=seen.taken_at, key=Key(RECORDER, GAP, "look"), before=before, after=seen.taken_at, detail=text)
        ]

    def _note(self, found: Iterable[Change]) -> None:
        self._put(told for change in found if (told := self.folding.admit(change)) is not None)

    def _put(self, found: Iterable[Change]) -> None:
        for change in found:
            line = json.dumps(masked(change.to_dict(), self.masker), ensure_ascii=False).encode() + b"\n"
            self.folding.size += len(line)
            self.lines.append(line)
        del self.lines[:-_WAITING]
