"""What a rank needs besides its device: shared memory that holds what is written, the head by name, room on the disk.

Measures from inside the worker pod, with a deadline each; changes nothing that stays.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Any

_WRITE = 32 * 2**20
_NAME_SECONDS = 5.0
_CONNECT_SECONDS = 3.0
_PORTS = {"dashboard": 8265, "client": 10001}


def shared_memory(folder: str = "/dev/shm", size: int = _WRITE) -> dict[str, Any]:  # noqa: S108 - the subject itself
    """Write a block and read it back: a mount may be smaller than it says, or read only."""
    path = Path(folder, f".rayflight-probe-{os.getpid()}")
    try:
        free = shutil.disk_usage(folder).free
        size = min(size, free // 4)
        block = os.urandom(2**20) * max(1, size // 2**20)
        begin = time.perf_counter()
        path.write_bytes(block)
        seconds = time.perf_counter() - begin
        right = path.read_bytes() == block
    except OSError as error:
        return {"ok": False, "error": str(error)}
    finally:
        path.unlink(missing_ok=True)
    gbps = round(len(block) / seconds / 1e9, 3)
    why = None if right else "other bytes were read than written"
    return {"ok": right, "error": why, "free_bytes": free, "wrote_bytes": len(block), "gbps": gbps}


def disk(folder: str) -> dict[str, Any]:
    """Room where Ray keeps logs and spilled objects; at 95 % Ray writes nothing more."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        return {"path": folder, "error": str(error)}
    return {"path": folder, "error": None, "total_bytes": usage.total, "free_bytes": usage.free}


def head(gcs_address: str) -> dict[str, Any]:
    """The head's name is resolved and its ports answer. KubeRay hands the name to worker pods in FQ_RAY_IP."""
    by_address, _, port = gcs_address.rpartition(":")
    name = os.environ.get("FQ_RAY_IP") or by_address
    addresses, error = resolve(name)
    ports = {"gcs": int(port) if port.isdigit() else 6379, **_PORTS}
    reached = {label: _reached(name, number) for label, number in ports.items()} if addresses else {}
    return {"name": name, "addresses": addresses, "error": error, "ports": ports, "reached": reached}


def resolve(name: str, seconds: float = _NAME_SECONDS) -> tuple[list[str], str | None]:
    """The addresses behind a name. The resolver has no deadline of its own, so it gets a thread and one here."""
    found: list[str] = []
    problem: list[str] = []

    def ask() -> None:
        try:
            found.extend(sorted({str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}))
        except OSError as error:
            problem.append(f"{name} cannot be resolved: {error}")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return [], f"{name}: the resolver did not answer within {seconds:g} s"
    return found, problem[0] if problem else None


def _reached(host: str, port: int) -> str | None:
    """None when the port answers, else why not."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        return str(error)
    return None
