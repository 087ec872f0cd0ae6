"""Moments of good and broken clusters, reduced from what a real cluster served. ``moment`` reads one as a Snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rayflight.snapshot.assemble import assemble
from rayflight.snapshot.model import Snapshot

FOLDER = Path(__file__).parent / "fixtures" / "moments"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def raw(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return data


def moment(name: str, **changes: Any) -> Snapshot:
    """The Snapshot of that moment; ``changes`` replace raw answers by name (``pods={"error": "..."}``)."""
    data = raw(name)
    answers = {**data["raw"], **{key.replace("__", "/"): value for key, value in changes.items()}}
    return assemble(
        answers, namespace=data["namespace"], name=data["name"], taken_at=data["taken_at"], asked=data.get("asked")
    )
