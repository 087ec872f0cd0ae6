"""A cluster that is looked at again and again, for recorder tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rayflight.archive import Archive
from rayflight.recorder import Change, Recorder
from rayflight.snapshot.model import Snapshot
from tests.made_up import at, snapshot

FOLDER = "attempt-1/flight"


def archive(folder: Path) -> Archive:
    return Archive(folder, url=folder.as_uri())


def silent(message: str, /, *args: object) -> None:
    raise AssertionError(message % args if args else message)


def seen(seconds: float, **changes: object) -> Snapshot:
    return replace(snapshot(), taken_at=at(seconds), **changes)  # type: ignore[arg-type]


async def recorded(folder: Path, looks: Iterable[Snapshot]) -> list[Change]:
    """One task's recording of those looks, read back."""
    recorder = Recorder(archive(folder), silent)
    for look in looks:
        await recorder.record(FOLDER, look)
    await recorder.close()
    return await recorder.timeline(FOLDER)


def texts(found: Iterable[Change]) -> list[str]:
    return [change.text for change in found]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER / "timeline").glob("*.jsonl"))
