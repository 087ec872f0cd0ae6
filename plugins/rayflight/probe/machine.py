"""What this container is: its devices as the driver lists them, /dev/shm, the memory limit. Reads only.

Devices come from NVML; where its library is not in the container (simulated GPUs have none), from nvidia-smi.
"""

from __future__ import annotations

import csv
import os
import platform
import shutil
from pathlib import Path
from typing import Any

from .child import in_child, run

_DRIVER_SECONDS = 20  # a driver without persistence mode needs several
_NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63
_FIELDS = "uuid,name,memory.total,driver_version"


def describe() -> dict[str, Any]:
    """Everything about the container that needs no device and no network."""
    nvml = in_child("nvml", _DRIVER_SECONDS)
    devices, error = nvml.pop("devices", []), str(nvml.get("error") or "")
    if nvml.get("ok") is None:
        devices, error = devices_of_container()
    facts: dict[str, Any] = {
        "pid": os.getpid(),
        "nvml": nvml,
        "pod": os.environ.get("RAY_CLOUD_INSTANCE_ID") or platform.node(),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "devices": own(devices),
        "simulated": os.environ.get("RAYFLIGHT_SIMULATED_GPU") == "1",
        "shm_bytes": shm_bytes(),
        "memory_limit_bytes": memory_limit_bytes(),
        "python": platform.python_version(),
    }
    return {**facts, "devices_error": error} if error else facts


def own(devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that RAYFLIGHT_DEVICES names, where it is set: without containers every process sees all of the machine's.

    A container runtime shows a pod its own devices only, so nothing sets the variable there.
    """
    given = os.environ.get("RAYFLIGHT_DEVICES")
    return devices if given is None else [item for item in devices if item.get("uuid") in given.split(",")]


def devices_of_container() -> tuple[list[dict[str, Any]], str]:
    """All devices that the container sees (not only this process's), and why there are none to see."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return [], "nvidia-smi is not in the container"
    answers = []
    for arguments in ([f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"], ["-L"]):
        code, answer, problem = run([smi, *arguments], _DRIVER_SECONDS)
        if code:
            return [], f"nvidia-smi failed: {problem or f'exit code {code}: {answer.strip()[-500:]}'}"
        answers.append(answer)
    try:
        devices = [_device(row) for row in csv.reader(answers[0].splitlines(), skipinitialspace=True) if row]
    except ValueError:
        return [], f"nvidia-smi answered something else than {_FIELDS}: {answers[0][:200]!r}"
    return _with_mig(devices, answers[1]), ""


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
