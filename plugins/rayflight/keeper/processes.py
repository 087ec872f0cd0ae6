"""Which processes came from a local cluster, and ending exactly these. Never by name, never by what Ray itself guesses.

Every process of a cluster inherits ``MARK`` in its environment. Who cleared or overwrote that (Ray's own agents do, to
show a title) is found by its session, which is the cluster's own, by its parent, or by its network (Linux, fenced).
A pid alone is never trusted: psutil compares the start time before it sends a signal.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

MARK = "RAYFLIGHT_LOCAL_CLUSTER"  # the cluster's uid
FOLDER = "RAYFLIGHT_LOCAL_FOLDER"  # the state folder in which the cluster has its record
# Of a cluster's own processes, those that run nothing of a user.
_RAYS_OWN = (
    "rayflight.keeper", "/ray start ", "/ray/core/", "/ray/_private/", "/ray/dashboard/", "/ray/autoscaler/",
    "ray.util.client.server", "multiprocessing.", "ray-dashboard-", "ray::DashboardAgent", "ray::RuntimeEnvAgent",
    "ray::IDLE", "ray::JobSupervisor", "while kill -s 0",
)  # fmt: skip
POD = "RAYFLIGHT_LOCAL_POD"  # the name of the process tree, as a pod would have it


def members(uid: str, pod: str | None = None) -> list[psutil.Process]:
    """The living processes of a cluster, or of one of its process trees."""
    every = list(psutil.process_iter())
    mine = {process.pid for process in every if _carries(process, MARK, uid)}
    if pod is not None:
        mine = {process.pid for process in every if process.pid in mine and _carries(process, POD, pod)}
    else:
        networks = {name for pid in mine if (name := _network(pid))} - {_network("self")}
        mine |= {process.pid for process in every if networks and _network(process.pid) in networks}
    sessions = {number for pid in mine if (number := _session(pid))} - {_session(0)}
    mine |= {process.pid for process in every if _session(process.pid) in sessions}
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
    """End all of them: politely, then for good. Returns the pids that are left in spite of SIGKILL (none, normally).

    What is found once is remembered: a process whose parent ended first may carry no sign any more. Only what a user
    runs is waited for; Ray's own processes have nothing to save.
    """
    known = set(members(uid, pod))
    signal_all(known, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(_is_a_users(process) for process in _living(known, uid, pod)):
        time.sleep(0.1)
    for _ in range(50):  # what forked while it was killed is met on the next round
        if not (left := _living(known, uid, pod)):
            return []
        signal_all(left, signal.SIGKILL)
        time.sleep(0.1)
    return [process.pid for process in _living(known, uid, pod)]


def end_present(uid: str, grace: float, pod: str) -> None:
    """End the processes that this tree has now. What the keeper starts in their place is left alone."""
    known = members(uid, pod)
    signal_all(known, signal.SIGTERM)
    _, left = psutil.wait_procs(known, timeout=grace)
    signal_all(left, signal.SIGKILL)


def _living(known: set[psutil.Process], uid: str, pod: str | None) -> list[psutil.Process]:
    known.update(members(uid, pod))
    return [process for process in known if process.is_running() and _lives(process)]


def _is_a_users(process: psutil.Process) -> bool:
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return not any(sign in words for sign in _RAYS_OWN)


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


def _session(pid: int) -> int | None:
    """0 asks for our own."""
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
