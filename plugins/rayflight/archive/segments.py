"""An append-only log as immutable segments, named by the byte offsets of their source: ``<start>-<end>.log``.

The end of the last whole segment is the cursor, so a reader that was killed anywhere resumes at the exact byte. A
segment that was cut off while it was written is shorter than its name says; it is dropped and written again.
"""

from __future__ import annotations

import re

from rayflight.archive.store import Archive

_NAME = re.compile(r"^(\d{15})-(\d{15})\.log$")


class SegmentedLog:
    """One log in one folder of the archive. Not safe for two writers; two writers of the same source write the same."""

    def __init__(self, archive: Archive, folder: str) -> None:
        self._archive, self._folder = archive, folder

    async def cursor(self) -> int:
        """The source's byte offset up to which the archive is complete."""
        segments = await self._segments()
        end = 0
        for index, (start, stop, name) in enumerate(segments):
            if start > end:
                break
            if stop <= end:
                continue
            # Only the last write can have been cut off: earlier ones were followed by another.
            if index == len(segments) - 1:
                data = await self._archive.read(f"{self._folder}/{name}")
                if data is None or len(data) != stop - start:
                    await self._archive.remove(f"{self._folder}/{name}")
                    break
            end = stop
        return end

    async def append(self, start: int, data: bytes) -> int:
        """Write ``data`` that stood at ``start`` in the source; returns the new cursor."""
        if not data:
            return start
        end = start + len(data)
        await self._archive.write(f"{self._folder}/{start:015d}-{end:015d}.log", data)
        return end

    async def read_all(self) -> bytes:
        """The whole log, in order, without gaps or repetitions."""
        parts, end = [], 0
        for start, stop, name in await self._segments():
            if start > end:
                break
            data = await self._archive.read(f"{self._folder}/{name}") or b""
            if len(data) == stop - start and stop > end:
                parts.append(data[end - start :])
                end = stop
        return b"".join(parts)

    async def last_start(self) -> int:
        """The source's byte offset at which the last segment begins; 0 where there is none."""
        segments = await self._segments()
        return segments[-1][0] if segments else 0

    async def _segments(self) -> list[tuple[int, int, str]]:
        names = await self._archive.names(self._folder)
        return sorted((int(match[1]), int(match[2]), match[0]) for name in names if (match := _NAME.match(name)))
