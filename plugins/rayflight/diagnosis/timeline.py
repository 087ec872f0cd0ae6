"""What happened when, in two columns: Kubernetes and Ray. Pure: read from the moments of one cluster, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rayflight.diagnosis import quoting
from rayflight.findings import Diagnosis
from rayflight.masking import Masker
from rayflight.snapshot.model import Container, Event, Pod, Ray, Snapshot

_LONGEST = 160  # characters of one entry
ROWS = 40  # entries of a report; the archive holds the rest
# What another entry tells as well, and what every start does.
_NOISE = (
    *("Pulled", "Created", "Pulling", "Started", "Scheduled", "SuccessfulAttachVolume", "CreatedService"),
    *("CreatedHeadPod", "CreatedWorkerPod"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened: ``side`` is kubernetes or ray."""

    at: str
    side: str
    text: str
    weight: int = 0  # what is dropped first when there are too many: the small


def timeline(moments: Sequence[Snapshot], diagnosis: Diagnosis | None = None, *, rows: int = ROWS) -> tuple[Entry, ...]:
    """The entries in order of time; of too many, evidence and warnings stay."""
    found: dict[tuple[str, str, str], Entry] = {}
    for entry in _all(moments, diagnosis):
        known = found.get((entry.at, entry.side, entry.text))
        if known is None or known.weight < entry.weight:
            found[entry.at, entry.side, entry.text] = entry
    return shortened(found.values(), rows)


def shortened(found: Iterable[Entry], rows: int = ROWS) -> tuple[Entry, ...]:
    """In order of time, masked; of too many, the weightiest."""
    entries = sorted(found, key=lambda item: item.at)
    if len(entries) > rows:
        kept = sorted(range(len(entries)), key=lambda number: (-entries[number].weight, number))[:rows]
        entries = [entries[number] for number in sorted(kept)]
    masker = Masker()  # an entrypoint or a message may hold a token
    return tuple(replace(entry, text=masker.text(quoting.clip(entry.text, _LONGEST))) for entry in entries)


def named(diagnosis: Diagnosis | None) -> frozenset[str]:
    """The names of all objects of which the findings speak."""
    found = [diagnosis.cause, *diagnosis.consequences] if diagnosis else []
    return frozenset(name.partition("/")[2] for item in found if item for name in item.objects)


def _all(moments: Sequence[Snapshot], diagnosis: Diagnosis | None) -> Iterator[Entry]:
    about = named(diagnosis)
    for seen in moments:
        yield from _cluster(seen)
        yield from _ray(seen.ray)
        for pod in seen.pods:
            yield from _pod(pod, about)
    for seen in moments[-1:]:
        yield from _events(seen, about)
    for first, second in pairwise(moments):
        yield from _between(first, second)


def _entry(at: str | None, text: str, *, side: str = "kubernetes", weight: int = 0) -> Iterator[Entry]:
    if at:
        yield Entry(at=at, side=side, text=quoting.clip(text, _LONGEST), weight=weight)


def _cluster(seen: Snapshot) -> Iterator[Entry]:
    cluster = seen.cluster
    if cluster is None:
        return
    yield from _entry(cluster.created_at, f"RayCluster {cluster.name} created", weight=3)
    yield from _entry(cluster.deleting_since, f"RayCluster {cluster.name} is being deleted", weight=4)
    for item in cluster.conditions:
        if item.type.startswith("RayClusterSuspend") and item.status == "False":
            continue
        said = f"RayCluster {item.type}={item.status} {item.reason}"
        text = f"{said}: {item.message}" if item.message and item.type == "ReplicaFailure" else said
        yield from _entry(item.since, text, weight=3 if item.type == "ReplicaFailure" else 1)
    for load in seen.workloads or ():
        for item in load.conditions:
            yield from _entry(item.since, f"Workload {item.type}={item.status} {item.reason}: {item.message}", weight=3)
    for node in seen.nodes:
        ready = next((item for item in node.conditions if item.type == "Ready" and item.status != "True"), None)
        if ready and any(pod.node == node.name for pod in seen.pods):
            yield from _entry(ready.since, f"node {node.name} is not Ready: {ready.reason}", weight=4)


def _pod(pod: Pod, about: frozenset[str]) -> Iterator[Entry]:
    weight = 2 if pod.name in about else 0
    yield from _entry(pod.created_at, f"pod {pod.name} created", weight=weight)
    yield from _entry(pod.deleting_since, f"pod {pod.name} is being deleted", weight=weight + 2)
    for item in pod.conditions:
        if item.type == "Ready" and item.status == "True":
            yield from _entry(item.since, f"pod {pod.name} Ready on {pod.node}", weight=weight)
        elif item.type in ("PodScheduled", "DisruptionTarget") and (item.type, item.status) != ("PodScheduled", "True"):
            yield from _entry(item.since, f"pod {pod.name}: {item.reason}: {item.message}", weight=weight + 2)
    for part in pod.containers:
        yield from _container(pod, part, weight)


def _container(pod: Pod, item: Container, weight: int) -> Iterator[Entry]:
    for ending in (item.last, item.terminated):
        if ending and not (item.init and ending.exit_code == 0):
            text = f"container {item.name} of pod {pod.name} ended: exit code {ending.exit_code} {ending.reason}"
            yield from _entry(ending.finished_at, text, weight=weight + 2)


def _events(seen: Snapshot, about: frozenset[str]) -> Iterator[Entry]:
    ours = {seen.name, *(pod.name for pod in seen.pods)} | about
    prefix = f"{seen.name}-"
    for item in seen.events:
        if (item.name in ours or item.name.startswith(prefix)) and item.reason not in _NOISE:
            yield from _entry(item.last_at, _told(item), weight=_weight(item, about))


def _weight(item: Event, about: frozenset[str]) -> int:
    return (2 if item.type == "Warning" else 0) + (1 if item.name in about else 0)


def _told(item: Event) -> str:
    times = f" (x{item.count})" if item.count > 1 else ""
    return f"{item.reason}{times} {item.kind.lower()} {item.name}: {item.message}"


def _ray(side: Ray | None) -> Iterator[Entry]:
    for node in side.nodes if side else ():
        name = f"Ray node {node.id[:8]} ({node.pod or node.ip})"
        yield from _entry(node.started_at, f"{name} joins{' as head' if node.is_head else ''}", side="ray")
        yield from _entry(node.ended_at, f"{name} is {node.state}: {node.why}", side="ray", weight=4)
    for job in side.jobs if side else ():
        yield from _entry(job.started_at, f"submission {job.id} starts: {job.entrypoint}", side="ray", weight=3)
        said = job.message.strip().splitlines()[:1]
        yield from _entry(job.ended_at, f"submission {job.id} {job.status}: {' '.join(said)}", side="ray", weight=4)
    for group in side.placement_groups if side else ():
        if group.state not in ("CREATED", "REMOVED"):
            text = f"placement group {group.id[:8]} is {group.state} ({len(group.bundles)} bundles)"
            yield from _entry(group.since, text, side="ray", weight=2)


def _between(first: Snapshot, second: Snapshot) -> Iterator[Entry]:
    """What only the difference of two moments tells."""
    if first.ray and second.ray and first.ray.session != second.ray.session:
        yield from _entry(second.taken_at, f"Ray's session is now {second.ray.session}", side="ray", weight=4)
    if first.ray and second.ray is None:
        gap = second.gap("ray")
        yield from _entry(second.taken_at, f"Ray does not answer: {gap.why if gap else ''}", side="ray", weight=3)
    if second.gap("pods") is None:
        for name in _names(first.pods) - _names(second.pods):
            yield from _entry(second.taken_at, f"pod {name} is gone", weight=3)


def _names(pods: Iterable[Pod]) -> set[str]:
    return {pod.name for pod in pods}
