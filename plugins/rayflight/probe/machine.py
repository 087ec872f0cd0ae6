"""What this container is: its devices as the driver lists them, /dev/shm, the memory limit. Reads only."""

from __future__ import annotations

import csv
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

_SMI_SECONDS = 20  # a driver without persistence mode needs several
_NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63
_FIELDS = "uuid,name,memory.total,driver_version"


def describe() -> dict[str, Any]:
    """Everything about the container that needs no device and no network."""
    devices, error = devices_of_container()
    facts: dict[str, Any] = {
        "pod": os.environ.get("RAY_CLOUD_INSTANCE_ID") or platform.node(),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "devices": devices,
        "simulated": os.environ.get("RAYFLIGHT_SIMULATED_GPU") == "1",
        "shm_bytes": shm_bytes(),
        "memory_limit_bytes": memory_limit_bytes(),
        "python": platform.python_version(),
    }
    return {**facts, "devices_error": error} if error else facts


def devices_of_container() -> tuple[list[dict[str, Any]], str]:
    """All devices that the container sees (not only this process's), and why there are none to see."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return [], "nvidia-smi is not in the container"
    try:
        answer = _smi(smi, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
        devices = [_device(row) for row in csv.reader(answer.splitlines(), skipinitialspace=True) if row]
        return _with_mig(devices, _smi(smi, "-L")), ""
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stdout", None) or getattr(error, "stderr", None) or ""
        return [], f"nvidia-smi failed: {error} {said}".strip()


def _smi(program: str, *arguments: str) -> str:
    return subprocess.run(  # noqa: S603 - fixed arguments, no shell
        [program, *arguments], capture_output=True, text=True, timeout=_SMI_SECONDS, check=True
    ).stdout


def _device(row: list[str]) -> dict[str, Any]:
    uuid, name, memory, driver = row
    return {"uuid": uuid, "name": name, "memory_mib": int(memory) if memory.isdigit() else None, "driver": driver}


def _with_mig(devices: list[dict[str, Any]], listing: str) -> list[dict[str, Any]]:
    """MIG instances stand only in ``-L``, indented below their GPU; each is added to it under ``mig``."""
    current: dict[str, Any] | None = None
    for line in listing.splitlines():
        uuid = line.rpartition("(UUID: ")[2].rstrip(")").strip()
        if uuid.startswith("MIG-"):
            if current is not None:
                current.setdefault("mig", []).append(uuid)
        else:
            current = next((item for item in devices if item["uuid"] == uuid), current)
    return devices


def shm_bytes(path: str = "/dev/shm") -> int | None:  # noqa: S108 - the mount itself is the subject
    """Size of the shared memory mount; None where there is none."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_blocks * status.f_frsize


def memory_limit_bytes(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """The memory limit of this process's cgroup, of either version; None when there is no limit."""
    limits = [_limit(path) for path in _limit_files(root, own)]
    return min((limit for limit in limits if limit is not None), default=None)


def _limit_files(root: Path, own: Path) -> list[Path]:
    """The files of the own cgroup and of the mount's root: inside a container the root is mostly the own cgroup."""
    files = [root / "memory.max", root / "memory" / "memory.limit_in_bytes"]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return files
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            files.append(root / path.lstrip("/") / "memory.max")
        elif "memory" in controllers.split(","):
            files.append(root / "memory" / path.lstrip("/") / "memory.limit_in_bytes")
    return files


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT else None
