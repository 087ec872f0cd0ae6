"""Everything of both layers into the archive, before anything is deleted. A missing log is named, never raised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rayflight.archive import SegmentedLog
from rayflight.backends.base import ClusterRef, LogFile
from rayflight.diagnosis import diagnose, report
from rayflight.errors import RayflightError
from rayflight.findings import Check, Diagnosis
from rayflight.lifecycle.driver_log import DriverLog
from rayflight.lifecycle.fleet import read_history
from rayflight.lifecycle.flight import Flight, Tools, recording
from rayflight.lifecycle.hang_records import with_its_hang
from rayflight.lifecycle.provision import clusters_of
from rayflight.lifecycle.submission import NUMBER
from rayflight.recorder import POD, TIMELINE, Change, columns
from rayflight.snapshot.model import Snapshot
from rayflight.verification import table

_PARALLEL = 8  # logs at a time
_NAMED = 20  # lost pods that are named one by one
_LOG_BYTES = 8 * 1024 * 1024  # per log; head and tail are kept
_SECONDS = 30.0  # for all logs together


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What is in the archive now. ``missing`` says what is not, and why."""

    archive: str
    files: int = 0
    bytes: int = 0
    missing: tuple[str, ...] = ()
    diagnosis: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: XCom would keep a tuple as a tuple, and every other reader of it stumble."""
        return {**asdict(self), "missing": list(self.missing)}


async def collect(tools: Tools, flight: Flight) -> Collected:
    """Logs of pods and Ray nodes, objects of both layers, and the whole driver log of each submission."""
    refs = await clusters_of(tools, flight)
    totals = [await _cluster(tools, flight, ref) for ref in refs]
    gaps = [gap for ref in refs for gap in await _last_lines(tools, flight, ref)]
    driver = await _driver_logs(tools, flight)
    await _timelines_of_the_lost(tools, flight, {ref.name for ref in refs})
    result = Collected(
        archive=tools.archive.url,
        files=sum(item.files for item in totals) + driver,
        bytes=sum(item.bytes for item in totals),
        missing=tuple(gap for item in totals for gap in item.missing)
        + tuple(gaps)
        + tools.recorder.missing
        + (() if refs else ("no cluster is left to collect from",)),
        diagnosis=totals[-1].diagnosis if totals else {},
    )
    await tools.archive.write_json(f"{flight.folder}/index.json", result.to_dict())
    tools.say(
        "Collected %d files (%d bytes) in %s; missing: %s",
        result.files,
        result.bytes,
        result.archive,
        "; ".join(result.missing) or "nothing",
    )
    return result


async def _cluster(tools: Tools, flight: Flight, ref: ClusterRef) -> Collected:
    folder = f"{flight.folder}/{ref.name}"
    missing: list[str] = []
    snapshot: Snapshot | None = None
    dump: dict[str, Any] = {}
    logs: tuple[LogFile, ...] = ()
    try:
        snapshot = await with_its_hang(tools.archive, flight.folder, await tools.observe(ref))
        missing.extend(f"{gap.source}: {gap.why}" for gap in snapshot.gaps if gap.applies)
        await tools.archive.write_json(f"{folder}/snapshot.json", snapshot.to_dict())
        dump = dict(await tools.backend.dump(ref))
        logs = tuple(await tools.backend.logs(ref))
    except RayflightError as error:
        missing.append(f"cluster {ref}: {error}")
    for name, data in dump.items():
        await tools.archive.write_json(f"{folder}/objects/{name}", data)
    missing.extend(f"{name}: {why}" for name, why in _unread(dump) if not any(why in told for told in missing))
    changes = await tools.recorder.publish(recording(ref))
    missing.extend(_lost_pods(changes))
    sizes = await _logs(tools, ref, logs, folder, missing)
    found = diagnose(snapshot) if snapshot else None
    diagnosis = found.to_dict() if found else {}
    await tools.archive.write_json(f"{folder}/diagnosis.json", diagnosis)
    if found and snapshot:
        text = _report(found, snapshot, changes) + await _verified(tools, folder) + await _history(tools, snapshot)
        await tools.archive.write(f"{folder}/report.md", text.encode())
    return Collected(
        archive=tools.archive.url,
        files=len(sizes) + len(dump),
        bytes=sum(sizes),
        missing=tuple(missing),
        diagnosis=diagnosis,
    )


async def _verified(tools: Tools, folder: str) -> str:
    """The matrix of the cluster's last verification, where there was one."""
    data = await tools.archive.read(f"{folder}/verification.json")
    return "\n" + table.markdown([Check(**row) for row in json.loads(data)["checks"]]) if data else ""


async def _history(tools: Tools, snapshot: Snapshot) -> str:
    """What the devices of these Kubernetes nodes did over their last verifications, this one included."""
    nodes = sorted({pod.node for pod in snapshot.workers() if pod.node})
    if tools.fleet is None or not nodes:
        return ""
    try:
        rows = await read_history(tools.fleet, nodes)
    except Exception as error:  # noqa: BLE001 - every store's library has exceptions of its own
        return f"\n## History\n\nIt could not be read from {tools.fleet.url}: {error}\n"
    return "\n".join(["\n## History\n", *(f"* {row.sentence()}" for row in rows), ""]) if rows else ""


def _unread(dump: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, data in dump.items():
        if isinstance(data, Mapping) and isinstance(data.get("error"), str):
            yield name, data["error"]


async def _timelines_of_the_lost(tools: Tools, flight: Flight, there: set[str]) -> None:
    """Of a cluster that somebody deleted the timeline is all that is left."""
    for name in await tools.archive.names(flight.folder):
        if name not in there and await tools.archive.names(f"{flight.folder}/{name}/{TIMELINE}"):
            await tools.recorder.publish(f"{flight.folder}/{name}")


def _report(found: Diagnosis, snapshot: Snapshot, changes: Sequence[Change]) -> str:
    """What vanished before the last look stands in the recorder's timeline only."""
    return report.markdown(found, [snapshot], told=columns(changes, found))


def _lost_pods(changes: Iterable[Change]) -> list[str]:
    """Whose logs nobody can read any more; when and in which state it went is on the timeline, too."""
    gone = {
        change.key.name: f"logs of pod {change.key.name}: it was gone at {change.when} (was {change.before})"
        for change in changes
        if change.key.kind == POD and not change.key.aspect and change.after is None
    }
    more = [f"logs of {len(gone) - _NAMED} more pods that are gone"] if len(gone) > _NAMED else []
    return [*list(gone.values())[:_NAMED], *more]


async def _logs(tools: Tools, ref: ClusterRef, logs: tuple[LogFile, ...], folder: str, missing: list[str]) -> list[int]:
    gate = asyncio.Semaphore(_PARALLEL)
    sizes: list[int] = []

    async def one(log: LogFile) -> None:
        async with gate:
            try:
                data = b"".join([block async for block in tools.backend.read_log(ref, log, limit=_LOG_BYTES)])
                await tools.archive.write(f"{folder}/logs/{log.name}", data)
                sizes.append(len(data))
            except RayflightError as error:
                missing.append(f"log {log.source} {log.name}: {error}")

    tasks = {asyncio.create_task(one(log)): log for log in logs}
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=_SECONDS)
        for task in late:
            task.cancel()
            missing.append(f"log {tasks[task].source} {tasks[task].name}: not read within {_SECONDS:.0f} s")
        await asyncio.gather(*tasks, return_exceptions=True)
    return sizes


def _unsaid(_message: str, /, *_args: object) -> None:
    """For lines that belong into the archive only: this is not the task that trained."""


async def _last_lines(tools: Tools, flight: Flight, ref: ClusterRef) -> list[str]:
    """What nobody followed to its end (a person ended the task): carried over now, byte for byte, without saying it."""
    quiet = replace(tools, say=_unsaid)
    api = tools.backend.jobs(ref)
    try:
        jobs = [job for job in await api.list() if NUMBER in job.metadata]
        for job in jobs:
            log = DriverLog(quiet, api, SegmentedLog(tools.archive, f"{flight.folder}/driver/{job.id}"))
            await log.resume()
            await log.pump(job, final=True)
    except RayflightError as error:
        return [f"driver logs of {ref}: {error}"]
    return []


async def _driver_logs(tools: Tools, flight: Flight) -> int:
    """One plain file per submission beside its segments, for people."""
    names = await tools.archive.names(f"{flight.folder}/driver")
    for name in names:
        data = await SegmentedLog(tools.archive, f"{flight.folder}/driver/{name}").read_all()
        await tools.archive.write(f"{flight.folder}/logs/driver-{name}.log", data)
    return len(names)
