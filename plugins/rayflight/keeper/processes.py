"""Which processes came from a local cluster, and ending exactly these. Never by name, never by what Ray itself guesses.

Every process of a cluster inherits ``MARK`` in its environment, whatever sessions and groups it makes for itself. Who
cleared its environment is found by the cluster's network (Linux, fenced) or by its parent. A pid alone is never
trusted: psutil compares the start time before it sends a signal.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

MARK = "RAYFLIGHT_LOCAL_CLUSTER"  # the cluster's uid
FOLDER = "RAYFLIGHT_LOCAL_FOLDER"  # the state folder in which the cluster has its record
POD = "RAYFLIGHT_LOCAL_POD"  # the name of the process tree, as a pod would have it


def members(uid: str, pod: str | None = None) -> list[psutil.Process]:
    """The living processes of a cluster, or of one of its process trees."""
    every = list(psutil.process_iter())
    mine = {process.pid for process in every if _carries(process, MARK, uid)}
    if pod is not None:
        mine = {process.pid for process in every if process.pid in mine and _carries(process, POD, pod)}
    else:
        networks = {found for pid in mine if (found := _network(pid))} - {_network("self")}
        mine |= {process.pid for process in every if networks and _network(process.pid) in networks}
    parents = {process.pid: _parent(process) for process in every}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return [process for process in every if process.pid in mine and _lives(process)]


def running(folder: str) -> set[str]:
    """Uids of the clusters of this state folder that have processes, with a record or without."""
    found = {_environment(process).get(MARK, "") for process in psutil.process_iter() if _of_folder(process, folder)}
    return found - {""}


def started(pid: int) -> float:
    """When that process was started, in seconds since 1970."""
    return float(psutil.Process(pid).create_time())


def end(uid: str, grace: float, pod: str | None = None) -> list[int]:
    """End all of them: politely, then for good. Returns the pids that are left in spite of SIGKILL (none, normally)."""
    signal_all(members(uid, pod), signal.SIGTERM)
    left = _until_none(uid, pod, grace)
    for _ in range(5):  # what forked while it was killed is met on the next round
        if not left:
            return []
        signal_all(left, signal.SIGKILL)
        left = _until_none(uid, pod, 2.0)
    return [process.pid for process in left]


def same(pid: int, started: float) -> bool:
    """Whether that very process still lives."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1.5 and _lives(process)
    except psutil.NoSuchProcess:
        return False


def signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    """Send it to those that still are who they were."""
    for process in processes:
        try:
            process.send_signal(number)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def _until_none(uid: str, pod: str | None, seconds: float) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while (left := members(uid, pod)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _of_folder(process: psutil.Process, folder: str) -> bool:
    return _environment(process).get(FOLDER) == folder


def _carries(process: psutil.Process, name: str, value: str) -> bool:
    return _environment(process).get(name) == value


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        found: dict[str, str] = process.environ()
    except (psutil.Error, OSError):  # another user's, or gone meanwhile
        return {}
    return found


def _network(pid: int | str) -> str:
    if not sys.platform.startswith("linux"):
        return ""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


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
