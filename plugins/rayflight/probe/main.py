"""The driver of the probe: seats one rank on every GPU bundle, asks each rank the same questions, prints one line.

``RAYFLIGHT_PROBE_RESULT {json}`` on standard output is all that is read by machine. A check that fails is a result
(exit 0); only a probe that could not run exits with another code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

import ray

from .placement import wait_for_seats
from .questions import Questions

MARK = "RAYFLIGHT_PROBE_RESULT"
_DEFAULTS: dict[str, Any] = {
    "gpus": 0,
    "cpu_nodes": 0,
    "placement_seconds": 30,
    "step_seconds": 30,
    "total_seconds": 120,
}


def main(arguments: list[str] | None = None) -> int:
    """Run, print, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expect", type=json.loads, default={}, help="JSON: " + ", ".join(_DEFAULTS))
    expect = {**_DEFAULTS, **parser.parse_args(arguments).expect}
    _end_at_all_costs(float(expect["total_seconds"]))
    begin = time.monotonic()
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    result = {"expect": expect, **probe(expect, begin)}
    sys.stdout.write(f"{MARK} {json.dumps(result)}\n")
    sys.stdout.flush()
    return 0


def probe(expect: dict[str, Any], begin: float) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    deadline = begin + float(expect["total_seconds"]) * 0.9  # the rest is for cleaning up and printing
    seated_by = min(deadline, time.monotonic() + float(expect["placement_seconds"]))
    seats = wait_for_seats(int(expect["gpus"]), int(expect["cpu_nodes"]), seated_by)
    questions = Questions(seats, deadline, float(expect["step_seconds"]))
    try:
        if questions.seat(float(expect["placement_seconds"])):
            questions.ask_all(os.environ.get("RAYFLIGHT_STORAGE_PATH", ""))
    finally:
        questions.leave()
    return questions.result(time.monotonic() - begin)


def _end_at_all_costs(seconds: float) -> None:
    """Ray's own calls have no deadline when its GCS is dead: a probe that hangs would hold every GPU."""

    def end() -> None:
        sys.stderr.write(f"The probe did not end within {seconds:g} s; giving up.\n")
        sys.stderr.flush()
        os._exit(3)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    raise SystemExit(main())
