"""What is known of a finding before any cluster is looked at: its page. Pure data; the pages are generated from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rayflight.diagnosis import quoting
from rayflight.findings import Decision, Evidence, Finding, Layer

RETRY_SECONDS = 300.0  # until capacity or an outage is worth another look, where nothing says better


@dataclass(frozen=True, slots=True)
class Kind:
    """One stable id in words. ``decisions``: what it may say, the usual one first; the facts choose."""

    id: str
    title: str
    layer: Layer
    decisions: tuple[Decision, ...]
    sign: str
    cause: str
    next_step: str

    def finding(
        self,
        summary: str,
        *,
        objects: Iterable[str] = (),
        evidence: Iterable[Evidence] = (),
        since: str | None = None,
        decision: Decision | None = None,
        next_step: str = "",
        retry_after: float = RETRY_SECONDS,
    ) -> Finding:
        """A finding of this kind; without ``since`` it began with its first evidence."""
        quoted = tuple(evidence)
        decided = decision or self.decisions[0]
        return Finding(
            id=self.id,
            title=self.title,
            layer=self.layer,
            summary=summary,
            next_step=next_step or self.next_step,
            decision=decided,
            objects=tuple(dict.fromkeys(objects)),
            evidence=quoted,
            since=since or quoting.earliest(quoted),
            retry_after=retry_after if decided is Decision.RETRY_AFTER else None,
        )


def kinds(
    layer: Layer, rows: Iterable[tuple[str, str, Decision | tuple[Decision, ...], str, str, str]]
) -> tuple[Kind, ...]:
    """A family of one layer: (id, title, decision, sign, cause, next step)."""
    return tuple(
        Kind(name, title, layer, said if isinstance(said, tuple) else (said,), sign, cause, step)
        for name, title, said, sign, cause, step in rows
    )
