"""Long-running processes of one testbed: start, find again, stop, also after a `kill -9` of anything.

A process is known by its record (pid, start time, boot id: a recycled pid is never taken for it) and, when the record
is lost, by the marker in its environment. Nothing else is ever signalled.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from testbed.errors import TestbedError

MARKER = "RAYFLIGHT_TESTBED_MARK"
NODE_MARKER = "RAYFLIGHT_TESTBED_NODE"
# A proxy of the shell must not stand between components that talk over loopback and bridges.
_PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy"})


@dataclass(frozen=True)
class Daemon:
    """One process to run: `node` names the mount namespace it lives in (None: the host's)."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None


@dataclass(frozen=True)
class Record:
    """A daemon and the process that runs it; `pid` is None when it was stopped on purpose."""

    daemon: Daemon
    pid: int | None
    started: int
    boot: str


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which the process started; None when it is gone or a zombie."""
    fields = _stat(pid)
    return None if fields[0] in "ZX" else int(fields[19])


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def wait_until(done: Callable[[], bool], seconds: float, every: float = 0.1) -> bool:
    """Poll until `done`; False when the time is over."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k.lower() not in _PROXY_VARIABLES and k != "KUBECONFIG"}
    return {**kept, **extra}


class Processes:
    """The processes of the testbed whose state directory is `state`."""

    def __init__(self, state: Path, run: Path, logs: Path, *, die_with_parent: bool = False) -> None:
        self._state = state
        self._records = run / "processes"
        self._logs = logs
        self._die_with_parent = die_with_parent

    def start(self, daemon: Daemon) -> int:
        """Start it unless it runs already; returns its pid."""
        running = self.pid(daemon.name)
        if running is not None:
            return running
        self._records.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        with self.log(daemon.name).open("ab") as log:
            process = subprocess.Popen(
                [*self._prefix(daemon), *daemon.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=clean_environment({**daemon.env, MARKER: str(self._state), NODE_MARKER: daemon.node or ""}),
                cwd="/",
                start_new_session=True,
            )
        self._write(Record(daemon, process.pid, start_time(process.pid) or 0, boot_id()))
        return process.pid

    def restart(self, name: str) -> int:
        """Start a daemon again with the command it was last started with."""
        record = self._read(name)
        if record is None:
            raise TestbedError(f"the testbed has no component {name!r}; it has: {', '.join(self.names()) or 'none'}")
        return self.start(record.daemon)

    def pid(self, name: str) -> int | None:
        """The pid of the living process, or None."""
        record = self._read(name)
        if record is None or record.pid is None or record.boot != boot_id():
            return None
        return record.pid if start_time(record.pid) == record.started else None

    def is_paused(self, name: str) -> bool:
        """Say whether it is frozen by SIGSTOP."""
        pid = self.pid(name)
        return pid is not None and _stat(pid)[0] in "Tt"

    def wake(self) -> None:
        """Let every paused process go on."""
        for name in self.names():
            if self.is_paused(name):
                self.signal(name, signal.SIGCONT)

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._records.glob("*.json"))

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def log_tail(self, name: str, lines: int = 5) -> str:
        try:
            text = self.log(name).read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a daemon, for faults such as SIGSTOP."""
        pid = self.pid(name)
        if pid is None:
            raise TestbedError(f"component {name!r} does not run; see `python -m testbed status`")
        os.kill(pid, number)

    def stop(self, names: Sequence[str], grace: float = 3.0) -> None:
        """Stop several at once: SIGTERM, then SIGKILL for those that do not go. Their records stay, for `restart`."""
        pids = [pid for name in names if (pid := self.pid(name)) is not None]
        end(pids, grace)
        for name in names:
            if (record := self._read(name)) is not None:
                self._write(Record(record.daemon, None, 0, record.boot))

    def forget(self, name: str) -> None:
        """Drop the record of a daemon that was stopped and is not to be missed."""
        (self._records / f"{name}.json").unlink(missing_ok=True)

    def marked(self) -> list[int]:
        """Every living process that carries this testbed's marker, whether or not a record names it."""
        return list(_marked(f"{MARKER}={self._state}"))

    def member_of(self, node: str) -> int | None:
        """A living process in the mount namespace of the node, or None when the node is not there."""
        for name in self.names():
            record = self._read(name)
            if record is not None and record.daemon.node == node and (pid := self.pid(name)) is not None:
                return pid
        # All that records name is dead, but a container's shim may live on there.
        return next(_marked(f"{MARKER}={self._state}", f"{NODE_MARKER}={node}"), None)

    def _prefix(self, daemon: Daemon) -> list[str]:
        prefix = ["setpriv", "--pdeathsig", "KILL", "--"] if self._die_with_parent else []
        if daemon.node is None:
            return prefix
        member = self.member_of(daemon.node)
        if member is None:
            return [*prefix, "unshare", "--mount", "--propagation", "private", "--"]
        return [*prefix, "nsenter", f"--mount=/proc/{member}/ns/mnt", "--"]

    def _write(self, record: Record) -> None:
        path = self._records / f"{record.daemon.name}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(record), default=dict, indent=1))
        temporary.rename(path)

    def _read(self, name: str) -> Record | None:
        try:
            stored = json.loads((self._records / f"{name}.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            return None  # half-written by a killed `up`: the marker sweep still finds the process
        daemon = stored.pop("daemon")
        return Record(daemon=Daemon(**{**daemon, "argv": tuple(daemon["argv"])}), **stored)


def end(pids: Sequence[int], grace: float) -> None:
    """End exactly these processes: politely first, then with SIGKILL; return when they are gone."""
    started = {pid: start_time(pid) for pid in pids}

    def alive() -> list[int]:
        return [pid for pid, ticks in started.items() if ticks is not None and start_time(pid) == ticks]

    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        for pid in alive():
            try:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # a paused process cannot act on SIGTERM
            except ProcessLookupError:
                continue
        if wait_until(lambda: not alive(), seconds, every=0.05):
            return
    raise TestbedError(f"processes {alive()} do not end even on SIGKILL; look at `ps -o pid,stat,wchan,cmd` for them")


def other_states(state: Path) -> set[str]:
    """State directories of other testbeds that have nodes on this machine."""
    found = set()
    for pid in _marked():
        variables = dict(v.split(b"=", 1) for v in _environment(pid) if b"=" in v)
        if variables.get(NODE_MARKER.encode()) and (owner := variables.get(MARKER.encode())):
            found.add(owner.decode())
    return found - {str(state)}


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; a process that is gone has the state X."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ["X"]
    return stat[stat.rindex(")") + 2 :].split()


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _marked(*markers: str) -> Iterator[int]:
    """Living processes that carry all these variables in their environment."""
    wanted = {marker.encode() for marker in markers}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        if wanted <= set(_environment(int(entry.name))) and start_time(int(entry.name)) is not None:
            yield int(entry.name)
