"""The records of local clusters on disk: a folder per cluster with the RayCluster object that etcd holds elsewhere.

``cluster.json`` is written atomically and changed only under its namespace's lock; it is made first and removed last.
Blocking: call from a thread. Starts and ends no process.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rayflight.errors import ApiUnreachable

JsonObject = dict[str, Any]
RECORD, STATUS, PLAN = "cluster.json", "status.json", "plan.json"


class Records:
    """All records below one folder: ``FOLDER/NAMESPACE/CLUSTER/``. Nobody but the owner may read them (tokens)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def lock(self, namespace: str) -> Iterator[None]:
        """One change at a time, over all processes; the kernel releases it when its holder dies."""
        path = self.folder / namespace
        with self._writable():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (path / ".lock").open("ab")
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def path(self, namespace: str, name: str) -> Path:
        """The cluster's own folder."""
        return self.folder / namespace / name

    def read(self, namespace: str, name: str) -> JsonObject | None:
        """The record (``{"uid", "grace", "run_folder", "object"}``), or None when there is no such cluster."""
        return read_json(self.path(namespace, name) / RECORD)

    def write(self, namespace: str, name: str, record: Mapping[str, Any]) -> None:
        """Under the lock."""
        path = self.path(namespace, name)
        with self._writable():
            path.mkdir(mode=0o700, exist_ok=True)
            write_json(path / RECORD, record)

    def change(self, namespace: str, name: str, uid: str, edit: Callable[[JsonObject], None]) -> JsonObject | None:
        """Edit the record of exactly this cluster; None when it is gone or another one has its name."""
        if not self.path(namespace, name).is_dir():
            return None
        with self.lock(namespace):
            record = self.read(namespace, name)
            if record is None or record["uid"] != uid:
                return None
            edit(record["object"])
            self.write(namespace, name, record)
            return record

    def list(self, namespace: str | None = None) -> Sequence[JsonObject]:
        """Every record of the namespace, or of all."""
        pattern = f"{namespace or '*'}/[!.]*/{RECORD}"
        found = (read_json(path) for path in sorted(self.folder.glob(pattern)))
        return [record for record in found if record is not None]

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            permitted = not isinstance(error, PermissionError)
            step = "make room there" if permitted else "get the right to write there"
            raise ApiUnreachable(
                "The local backend cannot write its records:",
                which=str(self.folder),
                why=error.strerror or str(error),
                next_step=f"{step}, or name another folder in the connection's extra `folder`",
            ) from error


def matches(labels: Mapping[str, str], selector: str) -> bool:
    """Kubernetes' equality selectors: ``a=b,c=d``; an empty one matches all."""
    wanted = (part.partition("=") for part in selector.split(",") if part)
    return all(labels.get(key.strip()) == value.lstrip("=").strip() for key, _, value in wanted)


def read_json(path: Path) -> JsonObject | None:
    """The data, or None where the file is not there."""
    try:
        data: JsonObject = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return data


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """All of it or nothing, also when the machine goes down in between."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    with fresh.open("w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
