"""A flight told on a terminal: stages as they happen, the verification matrix, progress, the cause, the landing.

Prints what Airflow and its XComs say. Judges nothing and changes nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dev.airflow_client import AirflowClient, Run, Task

PROGRESS = "RAYFLIGHT_PROGRESS "
GROUP = "flight"
_WIDEST_CELL = 44
ENDED = ("success", "failed", "upstream_failed", "skipped")


@dataclass
class FlightView:
    """Prints one run while it happens."""

    client: AirflowClient
    run: Run
    began: float = field(default_factory=time.monotonic)
    shown_progress: set[str] = field(default_factory=set)
    failed: list[Task] = field(default_factory=list)
    report: Mapping[str, Any] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """One line with the seconds since the view was made."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def follow(self) -> str:
        """Print until the run has ended; returns its state."""
        state = ""
        for change in self.client.watch(self.run, idle=self._show_progress):
            if change.task is None:
                state = str(change.state)
                self.say(f"run {state}")
            else:
                self._show_task(change.task)
        return state

    def _show_task(self, task: Task) -> None:
        if task.state not in ("running", "deferred", "up_for_retry", *ENDED):
            return
        seconds = f"{task.seconds:7.1f} s" if task.state in ENDED and task.seconds is not None else ""
        again = f" (try {task.try_number})" if task.try_number > 1 else ""
        self.say(f"{task.name.removeprefix(GROUP + '.'):13} {task.state or '':16}{seconds}{again}")
        self._show_details(task)

    def _show_details(self, task: Task) -> None:
        """What a task that has ended found: its error, the matrix, the last of the progress."""
        if task.state in ("failed", "up_for_retry"):
            self.failed.append(task)
            self._show_failure(self.client.failure(self.run, task))
        if task.state in ENDED and task.task_id == f"{GROUP}.verify":
            verified = self.client.xcom(self.run, task.task_id, task.map_index) or {}
            self._show_checks(verified.get("checks", ()))
        if task.state in ENDED and task.task_id == f"{GROUP}.train":
            self._show_progress([task])

    def _show_failure(self, text: str) -> None:
        print(indented(text), flush=True)

    def _show_checks(self, checks: Iterable[Mapping[str, Any]]) -> None:
        planned = self.client.xcom(self.run, f"{GROUP}.plan") or {}
        print(indented(matrix(checks, str(planned.get("cluster", "")))), flush=True)

    def _show_progress(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.task_id != f"{GROUP}.train" or task.try_number < 1:
                continue
            for line in self.client.log(self.run, task.task_id, task.map_index, task.try_number).splitlines():
                found = line.partition(PROGRESS)[2]
                if found and found not in self.shown_progress:
                    self.shown_progress.add(found)
                    self.report = read(found)
                    self.say(f"  training: {progress(found)}")

    def cause(self) -> str:
        """Why the run failed: what the first task that failed said."""
        return self.client.failure(self.run, self.failed[0]) if self.failed else "no task failed"

    def stages(self) -> str:
        """Seconds of each task, deferred time included, and the gaps between them."""
        tasks = sorted((t for t in self.client.tasks(self.run) if t.started), key=lambda t: (t.started, t.name))
        rows = [("stage", "state", "try", "seconds", "from", "to")]
        first = tasks[0].started if tasks else None
        for task in tasks:
            if task.started is None or first is None:
                continue
            begin = (task.started - first).total_seconds()
            end = (task.ended - first).total_seconds() if task.ended else None
            rows.append(
                (
                    task.name.removeprefix(GROUP + "."),
                    task.state or "",
                    str(task.try_number),
                    "" if task.seconds is None else f"{task.seconds:.1f}",
                    f"{begin:.1f}",
                    "" if end is None else f"{end:.1f}",
                )
            )
        return table(rows)


def matrix(checks: Iterable[Mapping[str, Any]], cluster: str = "") -> str:
    """The verification matrix. Names of pods lose the name of their cluster: it is the same in all of them."""
    rows: list[Sequence[str]] = [("level", "check", "subject", "expected", "observed", "verdict")]
    notes: list[str] = []
    for check in checks:
        keys = ("level", "id", "subject", "expected", "observed", "verdict")
        rows.append([cell(check.get(key), cluster) for key in keys])
        if check.get("verdict") in ("failed", "unknown") and check.get("next_step"):
            notes.append(f"{check.get('id')}: {check.get('next_step')}")
    return "\n".join([table(rows), *notes]) if len(rows) > 1 else "no verification was recorded"


def progress(text: str) -> str:
    """A progress report as ``epoch 3, accuracy 0.9712``; anything else as it came."""
    report = read(text)
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in report.items()) or text


def read(text: str) -> Mapping[str, Any]:
    """A progress report as data; nothing where it is none."""
    try:
        report = json.loads(text)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def cell(value: Any, cluster: str = "") -> str:
    """A value in at most so many characters."""
    text = "" if value is None else str(value).replace("\n", " ")
    text = text.replace(f"{cluster}-", "") if cluster else text
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, a line below the first row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def indented(text: str) -> str:
    """Set off from the stage lines."""
    return "\n".join(f"             {line}" for line in text.splitlines())


def fail(text: str) -> int:
    """Say it on standard error; the exit code of a flight that did not land well."""
    print(text, file=sys.stderr, flush=True)
    return 1
