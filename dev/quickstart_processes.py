"""The processes of the quick start's Airflow: noted when started, found again whoever started them, ended by pid.

Airflow's components overwrite their environment with a title, so the folder in it is a sign of some processes only; the
leaders are noted with their start times, and what came from them is found by session and parent.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from dev.airflow_instance import Airflow
from dev.airflow_process import Component

_NOTES = "processes.jsonl"
_PATIENCE = 4.0  # seconds after each signal


class NotedAirflow(Airflow):
    """Notes every component the moment it is started."""

    def _start(self, kind: str, name: str | None = None) -> Component:
        component = super()._start(kind, name)
        note(self.home.directory, component)
        return component


def note(home: Path, component: Component) -> None:
    """So that a later command finds it."""
    with (home / _NOTES).open("a") as notes:
        said = {"name": component.name, "pid": component.pid, "started": started(component.pid)}
        notes.write(json.dumps(said) + "\n")


def components(home: Path) -> dict[str, bool]:
    """Each component that was started last under its name, and whether it still runs."""
    newest = {item["name"]: item for item in _notes(home) if "name" in item}
    return {name: _is(item) for name, item in newest.items()}


def of_airflow(home: Path) -> list[psutil.Process]:
    """Everything that runs of the Airflow with this home."""
    every = {process.pid: process for process in psutil.process_iter() if process.pid != os.getpid()}
    marked = {pid for pid, process in every.items() if environment(process).get("AIRFLOW_HOME") == str(home.absolute())}
    mine = (_noted(home) | marked) & every.keys()
    sessions = {session for pid in mine if (session := _session(pid)) is not None} - {os.getsid(0)}
    mine |= {pid for pid in every if _session(pid) in sessions}
    while more := {pid for pid, process in every.items() if _parent(process) in mine} - mine:
        mine |= more
    return [every[pid] for pid in mine if _lives(every[pid])]


def end(home: Path) -> tuple[int, list[int]]:
    """How many were ended, and the pids of those that live on in spite of SIGKILL (none, normally)."""
    known = set(of_airflow(home))
    # The second SIGTERM is Airflow's own word for: do not wait for running tasks and triggers.
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        leaders = [process for process in known if _session(process.pid) == process.pid]
        _send(known if number == signal.SIGKILL else leaders or known, number)
        deadline = time.monotonic() + _PATIENCE
        while _left(known, home) and time.monotonic() < deadline:
            time.sleep(0.1)
    left = _left(known, home)
    if not left:
        (home / _NOTES).unlink(missing_ok=True)
    return len(known), [process.pid for process in left]


def environment(process: psutil.Process) -> dict[str, str]:
    """What it was started with; nothing where that cannot be read."""
    try:
        found: dict[str, str] = process.environ()
    except (psutil.Error, OSError):
        return {}
    return found


def started(pid: int) -> float:
    """Seconds since 1970; 0 for a process that has ended."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def _left(known: set[psutil.Process], home: Path) -> list[psutil.Process]:
    known.update(of_airflow(home))
    return [process for process in known if process.is_running() and _lives(process)]


def _noted(home: Path) -> set[int]:
    """Pids that still are the processes that were noted."""
    return {item["pid"] for item in _notes(home) if abs(started(item["pid"]) - item["started"]) < 1.0}


def _notes(home: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in (home / _NOTES).read_text().splitlines()]
    except FileNotFoundError:
        return []


def _is(item: Mapping[str, Any]) -> bool:
    """A later process can have its pid; one that ended and was not waited for is no process."""
    try:
        process = psutil.Process(item["pid"])
        return abs(process.create_time() - item["started"]) < 1.0 and _lives(process)
    except psutil.Error:
        return False


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _parent(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.Error:
        return None


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
