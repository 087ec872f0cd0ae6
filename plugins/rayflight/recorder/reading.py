"""Reads a timeline back: all segments of all writers, in time order, each change once. Decides nothing.

A segment that was cut off at any byte gives the whole lines before the cut; two writers that saw the same change, and
a writer that began from an older state than the last, give it once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rayflight.archive import Archive
from rayflight.recorder.change import EVENT, GAP, Change, Key

FOLDER, SEGMENT = "timeline", ".jsonl"
_AT_ONCE = 16
# What other lines tell as well, or what says nothing. A pull that took time is told.
_ROUTINE = (
    "Scheduled: ",
    "Created: ",
    "Started: ",
    "Pulled: Container image",
    "CreatedHeadPod: ",
    "CreatedWorkerPod: ",
)


async def timeline(archive: Archive, folder: str) -> list[Change]:
    """The timeline of one cluster (``attempt-N/<cluster>``), oldest first."""
    names = [name for name in await archive.names(f"{folder}/{FOLDER}") if name.endswith(SEGMENT)]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(name: str) -> bytes:
        async with gate:
            return await archive.read(f"{folder}/{FOLDER}/{name}") or b""

    parts = await asyncio.gather(*(read(name) for name in names))
    return in_order(change for part in parts for change in parse(part))


def plain(found: Iterable[Change]) -> str:
    """The timeline as people read it: one line per change, in UTC, the layer before the words. Routine is left out."""
    lines, day, routine = list[str](), "", 0
    for change in found:
        if is_routine(change):
            routine += 1
            continue
        if change.when[:10] != day:
            day = change.when[:10]
            lines.append(f"{day} (UTC)")
        lines.append(f"{change.when[11:23]}  {change.key.layer:<10}  {' '.join(change.text.split())}")
    if routine:
        lines.append(f"{routine} events of every start (Scheduled, Created, …) stand in {FOLDER}/*{SEGMENT} only")
    return "\n".join(lines) + "\n"


def is_routine(change: Change) -> bool:
    """Whether it is an event of every start, which other lines tell as well."""
    return change.key.kind == EVENT and change.detail.startswith(_ROUTINE)


def parse(segment: bytes) -> Iterator[Change]:
    """The whole lines of a segment; the cut end of a killed writer is no line."""
    for line in segment.splitlines():
        try:
            yield Change.from_dict(json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue


def in_order(found: Iterable[Change]) -> list[Change]:
    """In time order, each change once. Pure."""
    plain, folded = list[Change](), dict[str, Change]()
    for change in found:
        if not change.alike:
            plain.append(change)
        elif change.alike not in folded or folded[change.alike].count < change.count:
            folded[change.alike] = change
    kept = [*_once(sorted(plain, key=lambda item: item.at)), *folded.values()]
    return sorted(kept, key=lambda item: (item.when, item.at, item.key))


def _once(found: Iterable[Change]) -> Iterator[Change]:
    """A change that changes nothing was seen by another writer before."""
    now: dict[Key, str | None] = {}
    told: set[tuple[Key, str | None, str]] = set()
    events: dict[Key, Change] = {}
    for change in found:
        key = change.key
        if key.kind == EVENT:
            events[key] = _joined(events.get(key), change)
            continue
        again = change.since is not None and (key, change.after, change.since) in told
        if key.kind != GAP and (again or (key in now and now[key] == change.after)):
            continue
        if change.since is not None:
            told.add((key, change.after, change.since))
        if change.after is None and not key.aspect:
            now = {item: value for item, value in now.items() if item[:3] != key[:3]}
        now[key] = change.after
        yield change
    yield from events.values()


def _joined(known: Change | None, change: Change) -> Change:
    """One line per event: when it was first seen, how often it came, and when the last time was."""
    if known is None:
        return change
    if int(change.after or 1) <= int(known.after or 1):
        return known
    return replace(known, after=change.after, detail=f"{change.detail} (last {change.when[11:19]})")
