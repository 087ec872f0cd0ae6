"""Writes recorded moments as folders of plain dumps, as a colleague would collect them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests import moments


def write(place: Path, *names: str, **changes: Any) -> Path:
    """One folder per moment; a single one without the level of moments is ``write_moment``."""
    for name in names:
        write_moment(place / name, name, **changes)
    return place


def write_moment(place: Path, name: str, **changes: Any) -> Path:
    data = moments.raw(name)
    place.mkdir(parents=True)
    (place / "collected.json").write_text(json.dumps({"at": data["taken_at"]}))
    if "asked" in data:
        (place.parent / "manifest.yaml").write_text(yaml.safe_dump(data["asked"]))
    answers = {**data["raw"], **{key.replace("__", "/"): value for key, value in changes.items()}}
    for file, answer in answers.items():
        path = place / (f"{file}.txt" if file == "ray/gcs_healthz" else f"{file}.json")
        path.parent.mkdir(exist_ok=True)
        if answer is not None:
            path.write_text(answer if file == "ray/gcs_healthz" and isinstance(answer, str) else json.dumps(answer))
    return place
