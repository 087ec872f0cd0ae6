"""One component of Airflow as an operating system process: started, frozen, killed and ended by pid, never by name.

Airflow's components fork (LocalExecutor workers, task processes, the triggerer's runner), so each is started as leader
of a session of its own, and everything in that session belongs to it. Politeness goes to the leader alone: a SIGTERM to
the whole group leaves the scheduler waiting for its workers for ever.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Running:
    """A process as the kernel sees it; ``started`` tells it from a later one with the same pid."""

    pid: int
    parent: int
    session: int
    started: int


class Component:
    """One started component. ``name`` is unique in its Airflow: ``triggerer``, ``triggerer-2``."""

    def __init__(
        self, name: str, arguments: Iterable[str], *, environment: Mapping[str, str], log: Path, outlive: bool = False
    ) -> None:
        self.name, self.log = name, log
        # When we are killed, the kernel asks the component to end; one that shall outlive us is spared.
        bound = not outlive and shutil.which("setpriv")  # macOS has no such thing
        prefix = ["setpriv", "--pdeathsig", "TERM", "--"] if bound else []
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "airflow", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=log.parent,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._known: dict[int, Running] = {}

    @property
    def alive(self) -> bool:
        """True while the leader runs."""
        return self._process.poll() is None

    def members(self) -> list[Running]:
        """The leader and everything that came from it and still lives."""
        processes = {process.pid: process for process in running_processes()}
        mine = {pid for pid, known in self._known.items() if processes.get(pid) == known}
        mine |= {process.pid for process in processes.values() if self.pid in (process.pid, process.session)}
        while more := {p.pid for p in processes.values() if p.parent in mine} - mine:
            mine |= more
        self._known = {pid: processes[pid] for pid in mine if pid in processes}
        return list(self._known.values())

    def freeze(self) -> None:
        """Stop every process of the component, as a machine without CPU time would."""
        _signal(self.members(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them run again."""
        _signal(self.members(), signal.SIGCONT)

    def kill(self) -> None:
        """End it with everything it forked, with no chance to tidy up."""
        _signal(self.members(), signal.SIGKILL)
        self._process.wait(timeout=10)

    def ask_to_end(self) -> None:
        """SIGTERM to the leader alone."""
        members = self.members()
        _signal(members, signal.SIGCONT)  # a frozen process cannot act on SIGTERM
        _signal([member for member in members if member.pid == self.pid], signal.SIGTERM)

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that the component wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def end_all(components: Iterable[Component], grace: float = 3.0) -> list[Running]:
    """End all at once: politely, then insisting, then for good. Returns what had to be killed.

    The second SIGTERM is Airflow's own word for "do not wait for running tasks and triggers".
    """
    components = list(components)

    def left() -> list[Running]:
        for component in components:
            _ = component.alive  # reaps the leader
        return [member for component in components for member in component.members()]

    for _ in range(2):
        for component in components:
            component.ask_to_end()
        if wait_until(lambda: not left(), grace):
            return []
    killed = left()
    _signal(killed, signal.SIGKILL)
    if not wait_until(lambda: not left(), 5):
        raise RuntimeError(f"processes {[p.pid for p in left()]} do not end even on SIGKILL")
    return killed


def wait_until(done: Callable[[], bool], seconds: float, every: float = 0.1) -> bool:
    """Poll until ``done``; False when the time is over."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def running_processes() -> list[Running]:
    """Every process that has not ended."""
    if not sys.platform.startswith("linux"):
        return [found for process in psutil.process_iter() if (found := _ask(process))]
    return [found for entry in Path("/proc").iterdir() if entry.name.isdigit() and (found := _read(int(entry.name)))]


def _read(pid: int) -> Running | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None  # ended meanwhile
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return Running(pid=pid, parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]))


def _ask(process: psutil.Process) -> Running | None:
    """Slower than reading /proc, which only Linux has."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        started = int(process.create_time() * 100)
        return Running(pid=process.pid, parent=process.ppid(), session=os.getsid(process.pid), started=started)
    except (psutil.Error, OSError):
        return None


def _signal(processes: Iterable[Running], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            continue
