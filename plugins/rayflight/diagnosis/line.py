"""Whom a queued cluster waits for: its place in Kueue's queue, who stands before it, who holds the quota. Pure text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rayflight.diagnosis import quoting
from rayflight.diagnosis.quota import Refusal, Why
from rayflight.snapshot.model import Snapshot
from rayflight.snapshot.surroundings import Queue, QueuePlace, Workload

_PREEMPTOR = re.compile(r"JobUID: (?P<uid>[^)\s]+)")


def queue_of(load: Workload, seen: Snapshot) -> Queue | None:
    """The ClusterQueue behind the Workload's LocalQueue, where both could be read."""
    queues = seen.queues or ()
    local = next((item for item in queues if item.kind == "LocalQueue" and item.name == load.queue), None)
    return next((it for it in queues if local and it.kind == "ClusterQueue" and it.name == local.cluster_queue), None)


def place(load: Workload, seen: Snapshot) -> str:
    """`` at position 2 of ClusterQueue gpus, behind ray-b``; empty where nobody serves it."""
    places = seen.queue_places or ()
    mine = next((item for item in places if item.workload == load.name), None)
    if mine is None:
        return ""
    queue = queue_of(load, seen)
    where = f" of ClusterQueue {queue.name}" if queue else ""
    return f" at position {mine.in_cluster_queue + 1}{where}{_behind(mine, places, seen)}"


def holders(load: Workload, seen: Snapshot) -> str:
    """Who holds quota of the same ClusterQueue: by name in this namespace, by number beyond it."""
    queue = queue_of(load, seen)
    held = [
        _title(item)
        for item in seen.workloads or ()
        if item.name != load.name and item.has("QuotaReserved") and (not queue or _of(item, queue))
    ]
    return f"; quota is held by {quoting.listed(held)}" if held else ""


def numbers(refused: Iterable[Refusal], queue: Queue | None) -> str:
    """``; 2 of 2 nvidia.com/gpu reserved in flavor default`` for what it lacks."""
    wanted = {(item.flavor, item.resource) for item in refused if item.why in (Why.UNUSED, Why.CAPACITY)}
    known = [it for it in (queue.quotas if queue else ()) if (it.flavor, it.resource) in wanted]
    told = [f"{it.reserved} of {it.nominal} {it.resource} reserved in flavor {it.flavor}" for it in known]
    return f"; {quoting.listed(told)}" if told else ""


def preemptor(message: str, seen: Snapshot) -> str:
    """Who took its place, by name where its Workload can be seen."""
    found = _PREEMPTOR.search(message)
    return next((_title(item) for item in seen.workloads or () if found and item.owner == found["uid"]), "")


def _behind(mine: QueuePlace, places: Sequence[QueuePlace], seen: Snapshot) -> str:
    if not mine.in_cluster_queue:
        return ", the next one"
    titles = {item.name: _title(item) for item in seen.workloads or ()}
    before = sorted(
        (it for it in places if it.in_cluster_queue < mine.in_cluster_queue), key=lambda it: it.in_cluster_queue
    )
    named = [titles.get(item.workload, item.workload) for item in before]
    others = mine.in_cluster_queue - len(named)
    more = [f"{others} of other queues"] if others else []
    return f", behind {quoting.listed([*named, *more])}"


def _of(load: Workload, queue: Queue) -> bool:
    return load.cluster_queue in ("", queue.name)


def _title(load: Workload) -> str:
    return f"{load.owner_kind} {load.owner_name}".strip() or load.name
