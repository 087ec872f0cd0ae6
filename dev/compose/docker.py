"""A Docker daemon of our own: socket, data and containers below one folder, nothing else on the machine touched.

It writes no packet filter rules (its defaults would drop what the testbed forwards) and has no default bridge; the
bridges of compose networks work, their containers reach addresses of this machine and each other. Linux, root.

What an earlier start left that was killed is taken over by the next one and cleared away: the daemon knows its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dev.airflow_process import wait_until

FOLDER = Path(tempfile.gettempdir()) / "rayflight-docker"
_ADDRESSES = "base=10.95.0.0/16,size=24"  # the testbed has 10.97 to 10.99


class Docker:
    """A running daemon and its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        # The classic builder: BuildKit's own network cannot reach an index here.
        self.environment = {"DOCKER_HOST": f"unix://{self.socket}", "DOCKER_BUILDKIT": "0"}

    def __call__(self, *words: str, stdin: int | None = None, seconds: float = 900) -> str:
        """Run one command; its output. Raises with the end of what it said."""
        return run(["docker", *words], self.environment, stdin=stdin, seconds=seconds)

    def ids(self, kind: str) -> list[str]:
        """Every ``container``, ``network`` of ours or ``volume`` that there is."""
        words = ["--all"] if kind == "container" else ["--filter", "type=custom"] if kind == "network" else []
        return self(kind, "ls", "--quiet", *words).split()

    def clear(self) -> None:
        """Remove every container, network and volume."""
        for kind, force in (("container", ["--force", "--volumes"]), ("network", []), ("volume", ["--force"])):
            if found := self.ids(kind):
                self(kind, "rm", *force, *found)

    def answers(self) -> bool:
        """True once commands are served."""
        asked = subprocess.run(["docker", "version"], env=os.environ | self.environment, capture_output=True)
        return asked.returncode == 0


@contextmanager
def docker(folder: Path = FOLDER) -> Iterator[Docker]:
    """The daemon as long as the block; afterwards nothing of it is left. Another session waits."""
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield from _serve(Docker(folder))


def _serve(ours: Docker) -> Iterator[Docker]:
    folder = ours.folder
    command = ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--host", f"unix://{ours.socket}"]
    command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
    with (folder / "log").open("ab") as log:
        daemon = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "--", *command, "--default-address-pool", _ADDRESSES],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        if not wait_until(lambda: daemon.poll() is not None or ours.answers(), 60) or daemon.poll() is not None:
            raise RuntimeError(f"dockerd does not come up:\n{(folder / 'log').read_text()[-1500:]}")
        ours.clear()
        yield ours
    finally:
        with suppress(RuntimeError, subprocess.TimeoutExpired):  # a daemon that is ill is ended all the same
            ours.clear()
        _end(daemon)
        _remove(folder)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(daemon.pid, signal.SIGKILL)  # its own containerd is in the same session
        daemon.wait(timeout=10)


def _remove(folder: Path) -> None:
    for _ in range(20):  # a layer's mount may go a moment after its container
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        below = sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), reverse=True)
        for mount in below:
            subprocess.run(["umount", mount], check=False, capture_output=True)
        if not below:
            break
        time.sleep(0.5)
    shutil.rmtree(folder)


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int | None = None,
    folder: Path | None = None,
    seconds: float = 900,
) -> str:
    """Run it to its end; what it wrote. Raises RuntimeError with the end of that when it failed."""
    done = subprocess.run(
        command,
        env=os.environ | environment,
        stdin=stdin if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        timeout=seconds,
    )
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout
