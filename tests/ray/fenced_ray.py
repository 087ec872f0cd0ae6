"""A real Ray head of our own, fenced off: Ray listens on all interfaces, so it gets a network of its own.

The calling thread moves into that network too (a namespace is a matter of threads), so the tests' sockets reach it.
All of Ray's processes share one PID namespace: when its first process ends, the kernel ends them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
DASHBOARD, AGENT, GCS = 28265, 28266, 26379


def why_not() -> str | None:
    """Why this machine cannot run it; None when it can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "a network namespace of its own needs Linux and root"
    return None if shutil.which("unshare") else "`unshare` (util-linux) is missing"


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """This thread and its children in a new network that has loopback only; back again afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(_CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        _raise_loopback()
        yield
    finally:
        assert libc.setns(before, _CLONE_NEWNET) == 0
        os.close(before)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


@contextlib.contextmanager
def head(folder: Path, *, gpus: int) -> Iterator[Path]:
    """A head with so many logical GPUs; gives its log folder."""
    command = (
        f"ray start --head --block --disable-usage-stats --num-gpus={gpus} --num-cpus=2 --port={GCS} "
        f"--dashboard-port={DASHBOARD} --dashboard-agent-listen-port={AGENT} "
        f"--object-store-memory=100000000 --temp-dir={folder}"
    ).split()
    programs = Path(sys.executable).parent  # the environment's `ray` and `python3`
    # `bin` is where a test puts a program that shall be found first.
    environment = {"PATH": f"{folder}/bin:{programs}:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8"}
    with (folder / "start.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for_agent(process, folder / "start.log")
        yield folder / "session_latest" / "logs"
    finally:
        process.kill()
        process.wait(20)


def _wait_for_agent(process: subprocess.Popen[bytes], log: Path) -> None:
    """The agent is the last to come, and a submission needs it."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", AGENT), 1):
            return
        time.sleep(0.2)
    raise RuntimeError(f"Ray did not start:\n{log.read_text(errors='replace')[-3000:]}")
