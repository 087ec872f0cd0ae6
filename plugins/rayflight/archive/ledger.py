"""A value per key with compare-and-set, on any store of the archive: versions are objects that are only ever created.

``KEY/00000007.json`` is version 7; whoever creates the next number first has set the value. Old versions are removed by
the winner. No lock, no clock; the store's own conditional write decides (decision 20).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rayflight.archive.store import Archive

_KEPT = 3  # versions kept behind the newest: what a slow reader may be about to read


class Ledger:
    """The values in one folder of an archive."""

    def __init__(self, archive: Archive, folder: str) -> None:
        self.archive, self.folder = archive, folder

    async def keys(self) -> Sequence[str]:
        """Every key, sorted."""
        return await self.archive.names(self.folder)

    async def read(self, key: str) -> tuple[int, Mapping[str, Any] | None]:
        """Version and value; version 0 and None where there is none."""
        versions = await self._versions(key)
        for version in reversed(versions):
            data = await self.archive.read(self._name(key, version))
            if data is not None:
                return versions[-1], json.loads(data)
        return (versions[-1] if versions else 0), None

    async def compare_and_set(self, key: str, version: int, data: Mapping[str, Any]) -> bool:
        """Set the value if the version is still this one. False when somebody else was first."""
        if not await self.archive.create(self._name(key, version + 1), json.dumps(data, sort_keys=True).encode()):
            return False
        for old in await self._versions(key):
            if old < version + 1 - _KEPT:
                await self.archive.remove(self._name(key, old))
        return True

    async def forget(self, key: str) -> None:
        """Remove the key with all its versions."""
        for version in await self._versions(key):
            await self.archive.remove(self._name(key, version))

    async def _versions(self, key: str) -> list[int]:
        names = await self.archive.names(f"{self.folder}/{key}")
        return sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit())

    def _name(self, key: str, version: int) -> str:
        return f"{self.folder}/{key}/{version:08d}.json"
