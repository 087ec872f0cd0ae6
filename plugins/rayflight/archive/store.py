"""Reads and writes one flight's folder in the archive. Blocking I/O is kept off the event loop.

Source of truth for nothing: only ``plan``'s marker is read back, to notice an archive that is not shared (decision 6).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rayflight.errors import ArchiveNotShared, InvalidSpec
from rayflight.masking import Masker, masked

MARKER = "flight.json"
_AMAZON, _AZURE = "apache-airflow-providers-amazon[s3fs]", "apache-airflow-providers-microsoft-azure"
# Airflow's providers whose file systems ObjectStoragePath takes, by scheme.
_PROVIDERS = {"s3": _AMAZON, "s3a": _AMAZON, "gs": "apache-airflow-providers-google"}
_PROVIDERS |= {"gcs": _PROVIDERS["gs"], "abfs": _AZURE, "abfss": _AZURE, "adl": _AZURE}


class ArchivePath(Protocol):
    """The part of pathlib that the archive needs; pathlib.Path and Airflow's ObjectStoragePath have it."""

    def __truediv__(self, key: str, /) -> ArchivePath: ...
    def exists(self) -> bool: ...
    def read_bytes(self) -> bytes: ...
    def write_bytes(self, data: bytes, /) -> int: ...
    def open(self, mode: str, /) -> Any: ...
    def mkdir(self, *, parents: bool = ..., exist_ok: bool = ...) -> None: ...
    def iterdir(self) -> Iterable[Any]: ...
    def unlink(self) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> Any: ...


class Archive:
    """One flight's folder. ``url`` is what people are shown; ``masker`` runs over everything that is written."""

    def __init__(self, root: ArchivePath, *, url: str, masker: Masker | None = None) -> None:
        self.root, self.url, self.masker = root, url, masker or Masker()

    async def write(self, name: str, data: bytes) -> None:
        """Write one object, masked. Parents are made where the store has folders."""
        await asyncio.to_thread(self._write, name, data)

    async def create(self, name: str, data: bytes) -> bool:
        """Write one object only if there is none of this name: False when somebody else was first. Masked."""
        return await asyncio.to_thread(self._create, name, self.masker(data))

    async def write_json(self, name: str, data: Any) -> None:
        """Write JSON, masked, stable key order. Masked as data, not as bytes: it must stay JSON."""
        plain = json.loads(json.dumps(data, default=str))
        hidden = masked(masked(plain), self.masker)
        await asyncio.to_thread(self._put, name, json.dumps(hidden, indent=1, sort_keys=True).encode())

    async def read(self, name: str) -> bytes | None:
        """The object's bytes, or None when it is not there."""
        return await asyncio.to_thread(self._read, name)

    async def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; empty when there is none."""
        return await asyncio.to_thread(self._names, folder)

    async def remove(self, name: str) -> None:
        """Remove one object; silent when it is gone."""
        await asyncio.to_thread(self._remove, name)

    async def open(self, marker: Mapping[str, Any]) -> None:
        """Leave ``plan``'s marker. Raises InvalidSpec when the archive cannot be written."""
        try:
            await self.write_json(MARKER, marker)
        except Exception as error:  # noqa: BLE001 - every store's library has exceptions of its own
            raise InvalidSpec(
                "Cannot write the archive",
                which=self.url,
                why=str(error) or type(error).__name__,
                next_step=self._library(error)
                or "set [rayflight] archive (or archive=) to a place that every worker can write",
            ) from None

    def require_library(self) -> None:
        """Raises InvalidSpec where what speaks to such a store is not installed. Asks the store nothing."""
        try:
            getattr(self.root, "fs", None)  # made here; a plain folder needs none
        except (ImportError, ValueError) as error:  # Airflow's word where no provider brings that file system
            raise InvalidSpec(
                "Unusable archive", which=self.url, why=str(error), next_step=self._library(error)
            ) from None

    def _library(self, error: Exception) -> str:
        """What to install, where that is what is missing."""
        if not isinstance(error, ImportError) and "No filesystem registered" not in str(error):
            return ""
        scheme = self.url.partition("://")[0]
        package = _PROVIDERS.get(scheme)
        what = f"pip install '{package}'" if package else f"install the fsspec file system of {scheme}://"
        return f"{what} wherever Airflow runs tasks, triggers and its API server, or name another archive"

    async def check(self) -> None:
        """Raises ArchiveNotShared when ``plan``'s marker cannot be read by this process."""
        why = "the marker that `plan` left there is not to be found from this process"
        try:
            if await self.read(MARKER) is not None:
                return
        except OSError as error:
            why = f"the marker that `plan` left there cannot be read by this process ({error})"
        raise ArchiveNotShared(
            "The archive is not shared:",
            which=self.url,
            why=why,
            next_step="use an object store, or a volume that all workers and triggerers mount at the same path",
        )

    def _at(self, name: str) -> ArchivePath:
        path = self.root
        for part in filter(None, name.split("/")):
            path = path / part
        return path

    def _write(self, name: str, data: bytes) -> None:
        self._put(name, self.masker(data))  # here, in the thread: masking megabytes takes a while

    def _put(self, name: str, data: bytes) -> None:
        path = self._at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _create(self, name: str, data: bytes) -> bool:
        """Mode ``xb``: O_EXCL on a disk, a conditional request on S3, GCS and Azure (no lock, no second look)."""
        path = self._at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        except OSError:  # s3fs gives a refused condition (412) as EINVAL
            if not path.exists():
                raise
            return path.read_bytes() == data  # ours, though the answer was lost
        return True

    def _read(self, name: str) -> bytes | None:
        try:
            return self._at(name).read_bytes()
        except FileNotFoundError:
            return None

    def _names(self, folder: str) -> list[str]:
        path = self._at(folder)
        try:
            return sorted(item.name for item in path.iterdir())
        except (
            FileNotFoundError,
            NotADirectoryError,
        ):  # Airflow's ObjectStoragePath says the latter of a missing folder
            return []

    def _remove(self, name: str) -> None:
        try:
            self._at(name).unlink()
        except FileNotFoundError:
            return
