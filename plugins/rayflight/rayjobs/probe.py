"""Packs the probe to run as a Ray job, and reads its one result line. Judges nothing; waits for nothing."""

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
STACKS_MARK = "RAYFLIGHT_STACKS_RESULT "  # also in probe/stacks.py
HOOK = f"{NAME}.hook.register"  # a worker_process_setup_hook; needs the package among py_modules


def probe_package() -> Package:
    """The probe's own folder, under the name that it runs by."""
    return pack(Path(rayflight.__file__).parent / "probe", prefix=f"{NAME}/")


def probe_entrypoint(expect: Mapping[str, Any]) -> str:
    """The job's command. ``expect``: gpus, cpu_nodes and the deadlines, with their defaults in probe/main.py."""
    return f"python3 -m {NAME}.main --expect {shlex.quote(json.dumps(dict(expect), sort_keys=True))}"


def stacks_entrypoint(ask: Mapping[str, list[int]], *, between: float, seconds: float) -> str:
    """The command of a job that looks into these processes, by Ray node, ``between`` seconds apart."""
    wanted = shlex.quote(json.dumps(ask, sort_keys=True))
    return f"python3 -m {NAME}.stacks --ask {wanted} --between {between:g} --seconds {seconds:g}"


def probe_result(log: str, mark: str = MARK) -> dict[str, Any] | None:
    """The result in a driver log, or None when the probe did not get so far."""
    for line in reversed(log.splitlines()):
        at = line.find(mark)
        if at >= 0:
            try:
                data = json.loads(line[at + len(mark) :])
            except ValueError:  # cut off: the log was read in the middle of the line
                return None
            return data if isinstance(data, dict) else None
    return None
