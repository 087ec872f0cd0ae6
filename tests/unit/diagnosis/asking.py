"""What the tests of diagnosis ask: findings of one snapshot, by id; each is held to its page and to its evidence."""

from __future__ import annotations

from typing import Any

from rayflight.diagnosis import diagnose, findings
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Decision, Finding
from rayflight.snapshot.model import Snapshot
from tests.perturb import Seen, without


def found(seen: Snapshot, **noted: Any) -> dict[str, Finding]:
    """Every finding by its id."""
    return {item.id: item for item in asked(seen, **noted)}


def ids(seen: Snapshot, **noted: Any) -> list[str]:
    return [item.id for item in asked(seen, **noted)]


def asked(seen: Snapshot, **noted: Any) -> tuple[Finding, ...]:
    given = findings(diagnose(seen, **noted))
    for item in given:
        conforms(item)
        falls_silent(Seen(seen, noted), item)
    return given


def conforms(item: Finding) -> None:
    """Title, layer and decision are those of its page."""
    kind = KINDS[item.id]
    assert (item.title, item.layer) == (kind.title, kind.layer), item.id
    assert item.decision in (*kind.decisions, Decision.WAIT), f"{item.id}: {item.decision} is not on its page"
    assert item.evidence, f"{item.id} quotes nothing"
    assert (item.retry_after is not None) == (item.decision is Decision.RETRY_AFTER), item.id


def falls_silent(seen: Seen, item: Finding) -> None:
    """Without what it quotes the rule says nothing."""
    less = without(seen, item)
    again = [it.id for it in findings(diagnose(less.now, **less.noted))]
    assert item.id not in again, f"{item.id} is still said without {[it.object for it in item.evidence]}"
