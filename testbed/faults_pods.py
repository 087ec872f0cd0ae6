"""Processes inside the testbed's pods, seen and signalled from the host.

Standard library only. A process belongs to a pod when its cgroup says so: nothing inside the container is needed, and
no process outside the testbed's own cgroup is ever signalled.
"""

import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.client import Json
from testbed.errors import TestbedError
from testbed.host import CGROUP
from testbed.process import start_time

PROC = Path("/proc")


@dataclass(frozen=True)
class PodProcess:
    """A process of a container, by its pid on the host."""

    pid: int
    started: int
    container: str
    command: str

    def shown(self) -> str:
        """One short line for people."""
        short = self.command if len(self.command) <= 80 else self.command[:77] + "..."
        return f"{self.pid} {short} ({self.container})"


def processes(pod: Json, proc: Path = PROC) -> list[PodProcess]:
    """Return every process of a pod's containers; the sandbox itself is not among them."""
    uid = pod["metadata"]["uid"]
    status = pod.get("status", {})
    containers = {
        item["containerID"].rpartition("//")[2]: item["name"]
        for kind in ("containerStatuses", "initContainerStatuses")
        for item in status.get(kind, ())
        if item.get("containerID")
    }
    found = []
    for pid, path in _in_testbed(proc):
        container = containers.get(path.rpartition("/")[2])
        ticks = start_time(pid)
        if f"/pod{uid}/" in path and container is not None and ticks is not None:
            found.append(PodProcess(pid, ticks, container, _command(proc, pid)))
    return found


def matching(pod: Json, pattern: str, container: str = "", proc: Path = PROC) -> list[PodProcess]:
    """Return the processes whose command line matches; none at all is an error that shows what runs there."""
    everything = processes(pod, proc)
    chosen = [p for p in everything if re.search(pattern, p.command) and container in ("", p.container)]
    if not chosen:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        running = "".join(f"\n  {p.shown()}" for p in everything) or " nothing"
        raise TestbedError(f"no process of pod {name} matches {pattern!r}; there runs:{running}")
    return chosen


def send(chosen: Sequence[PodProcess], number: signal.Signals) -> None:
    """Signal each process that is still the one that was found."""
    for process in chosen:
        if start_time(process.pid) == process.started:
            os.kill(process.pid, number)


def kill_node(node: str) -> int:
    """Kill every process of every pod of a node at once. Returns how many."""
    pids = [pid for pid, path in _in_testbed(PROC) if f"/{CGROUP}/{node}/" in path]
    ended = 0
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it went with its parent
        ended += 1
    return ended


def _in_testbed(proc: Path) -> Iterator[tuple[int, str]]:
    """Yield pid and cgroup of every process below the testbed's cgroup."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            lines = (entry / "cgroup").read_text().splitlines()
        except OSError:
            continue  # it ended meanwhile
        path = next((line.split(":", 2)[2] for line in lines if f"/{CGROUP}/" in line), None)
        if path is not None:
            yield int(entry.name), path


def _command(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
