"""Packs and submits the probe as a Ray job, and reads its one result line. Judges nothing; waits for nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rayflight
from rayflight.rayjobs.packages import Package, pack

NAME = "rayflight_probe"
MARK = "RAYFLIGHT_PROBE_RESULT "  # also in probe/main.py, which imports nothing of Rayflight


def probe_package() -> Package:
    """The probe's own folder, under the name that it runs by."""
    return pack(Path(rayflight.__file__).parent / "probe", prefix=f"{NAME}/")


def probe_entrypoint(expect: Mapping[str, Any]) -> str:
    """The job's command. ``expect``: gpus, cpu_nodes and the deadlines, with their defaults in probe/main.py."""
    return f"python3 -m {NAME}.main --expect {shlex.quote(json.dumps(dict(expect), sort_keys=True))}"


def probe_result(log: str) -> dict[str, Any] | None:
    """The result in a driver log, or None when the probe did not get so far."""
    for line in reversed(log.splitlines()):
        at = line.find(MARK)
        if at >= 0:
            try:
                data = json.loads(line[at + len(MARK) :])
            except ValueError:  # cut off: the log was read in the middle of the line
                return None
            return data if isinstance(data, dict) else None
    return None
