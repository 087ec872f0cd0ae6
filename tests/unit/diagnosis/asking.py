"""What the tests of diagnosis ask: the findings of one snapshot, by id."""

from __future__ import annotations

from typing import Any

from rayflight.diagnosis import diagnose, findings
from rayflight.findings import Finding
from rayflight.snapshot.model import Snapshot


def found(seen: Snapshot, **noted: Any) -> dict[str, Finding]:
    """Every finding by its id."""
    return {item.id: item for item in findings(diagnose(seen, **noted))}


def ids(seen: Snapshot, **noted: Any) -> list[str]:
    return [item.id for item in findings(diagnose(seen, **noted))]
