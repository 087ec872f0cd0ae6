"""The GPUs that this machine really has, each given to one process tree at a time. Reads and locks; starts nothing.

A device is held by a file lock of the keeper, which the kernel releases when the keeper ends, however it does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO

_SECONDS = 20  # a driver without persistence mode needs several


def present() -> list[str]:
    """UUIDs of all GPUs; none where there is no driver."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return []
    try:
        answer = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            [smi, "--query-gpu=uuid", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]


class Devices:
    """What one keeper holds."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"rayflight-gpus-{os.getuid()}"
        self._locks: list[IO[bytes]] = []

    def take(self, count: int, among: list[str]) -> list[str]:
        """So many devices that nobody holds, or none at all: half of them would keep others waiting for nothing."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        got: list[tuple[str, IO[bytes]]] = []
        for uuid in among:
            if len(got) == count:
                break
            lock: IO[bytes] = (self._folder / uuid).open("ab")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            got.append((uuid, lock))
        if len(got) < count:
            for _, lock in got:
                lock.close()
            return []
        self._locks += [lock for _, lock in got]
        return [uuid for uuid, _ in got]
