"""Writes timelines into the archive: immutable segments and a small checkpoint. Never fails or slows a run.

A segment is named by time, writer and number, so two writers (a frozen triggerer that wakes up) never share a file. The
checkpoint has two places that are written in turn: whoever is killed while writing one leaves the other.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rayflight.archive import Archive
from rayflight.recorder.change import Change
from rayflight.recorder.reading import FOLDER, SEGMENT, plain, timeline
from rayflight.recorder.tape import Tape
from rayflight.snapshot.model import Snapshot

PLAIN = "timeline.txt"
_STATES = ("state-0.json", "state-1.json")
_CHECKPOINT = 10.0  # seconds between checkpoints while things change
_IDLE = 40.0  # the same while nothing changes: less than what counts as a gap
_WAIT = 0.2  # seconds that a run waits for a write
_DRAIN = 3.0  # seconds that the end of a task waits for it
_LOAD = 10.0


@dataclass
class _Reel:
    """A tape with its place in the archive."""

    folder: str
    tape: Tape
    writer: str
    number: int = 0
    saved: float = 0.0
    states: int = 0
    writing: asyncio.Task[None] | None = None


class Recorder:
    """Records any number of clusters of one flight; one per task."""

    def __init__(
        self, archive: Archive, say: Callable[..., object], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._archive, self._say, self._monotonic = archive, say, monotonic
        self._reels: dict[str, _Reel] = {}
        self._loading = asyncio.Lock()
        self._troubled = False

    @property
    def missing(self) -> tuple[str, ...]:
        """What could not be recorded, by this and earlier tasks, in words."""
        return tuple(error for reel in self._reels.values() for error in reel.tape.errors)

    async def record(self, folder: str, seen: Snapshot) -> None:
        """Note what changed since the last look at the cluster whose archive folder this is."""
        try:
            reel = await self._reel(folder)
            reel.tape.see(seen)
            await self._write(reel, _WAIT)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here must not end a training
            self._trouble(folder, error)

    async def close(self) -> None:
        """Write what is left; gives up after some seconds."""
        for reel in self._reels.values():
            try:
                reel.tape.finish()
                reel.saved = float("-inf")
                await self._write(reel, _DRAIN)
                await self._write(reel, _DRAIN)  # what came while the first was under way
            except Exception as error:  # noqa: BLE001 - as above
                self._trouble(reel.folder, error)

    async def timeline(self, folder: str) -> list[Change]:
        """What is recorded of that cluster."""
        return await timeline(self._archive, folder)

    async def publish(self, folder: str) -> list[Change]:
        """Write what is left, and the timeline so far as text for people."""
        await self.close()
        try:
            found = await timeline(self._archive, folder)
            await self._archive.write(f"{folder}/{PLAIN}", plain(found).encode())
        except Exception as error:  # noqa: BLE001 - as above
            self._trouble(folder, error)
            return []
        return found

    async def _reel(self, folder: str) -> _Reel:
        async with self._loading:
            if folder not in self._reels:
                reel = _Reel(folder, Tape(self._archive.masker), secrets.token_hex(4), saved=self._monotonic())
                self._reels[folder] = reel
                async with asyncio.timeout(_LOAD):
                    await self._load(reel)
            return self._reels[folder]

    async def _load(self, reel: _Reel) -> None:
        found = []
        for slot, name in enumerate(_STATES):
            data = await self._archive.read(f"{reel.folder}/{FOLDER}/{name}")
            found += [(str(state.get("at")), slot, state)] if data and (state := _state(data)) else []
        for _, slot, state in sorted(found, key=lambda item: item[:2], reverse=True):
            try:
                reel.tape.resume(state)
            except (KeyError, TypeError, ValueError):  # of another version
                continue
            reel.states = slot + 1  # the older of the two is written next
            return

    async def _write(self, reel: _Reel, seconds: float) -> None:
        """One write at a time; what is not done in time goes on by itself."""
        if reel.writing is None and (reel.tape.lines or self._due(reel, _IDLE)):
            reel.writing = asyncio.create_task(self._flush(reel))
        if reel.writing is not None:
            await asyncio.wait({reel.writing}, timeout=seconds)
            if reel.writing.done():
                reel.writing = None

    async def _flush(self, reel: _Reel) -> None:
        lines, reel.tape.lines = reel.tape.lines, []
        # Made now: what is seen while the segment is written belongs to the next one.
        checkpoint = reel.tape.checkpoint() if self._due(reel, _CHECKPOINT) else None
        try:
            if lines:
                name = _segment(reel)
                reel.number += 1  # also of a write that fails: no name is used twice
                await self._archive.write(f"{reel.folder}/{FOLDER}/{name}", b"".join(lines))
            if checkpoint is not None:
                await self._archive.write(f"{reel.folder}/{FOLDER}/{_STATES[reel.states % 2]}", checkpoint)
                reel.states, reel.saved = reel.states + 1, self._monotonic()
        except Exception as error:  # noqa: BLE001 - every store's library has exceptions of its own
            reel.tape.lines = lines + reel.tape.lines
            self._trouble(reel.folder, error)

    def _due(self, reel: _Reel, seconds: float) -> bool:
        return self._monotonic() - reel.saved > seconds or reel.states == 0

    def _trouble(self, folder: str, error: Exception) -> None:
        why = f"the flight recorder of {folder}: {str(error) or type(error).__name__}"
        if folder in self._reels and why not in self._reels[folder].tape.errors:
            self._reels[folder].tape.errors[5:] = [why]
        if not self._troubled:
            self._troubled = True
            self._say("%s. The run goes on without that part of its timeline", why)


def _segment(reel: _Reel) -> str:
    stamp = "".join(char for char in reel.tape.at or "" if char.isdigit())
    return f"{stamp}-{reel.writer}-{reel.number:05d}{SEGMENT}"


def _state(data: bytes) -> dict[str, Any] | None:
    try:
        state = json.loads(data)
    except ValueError:
        return None
    return state if isinstance(state, dict) else None
