"""One Snapshot from raw answers by name. Pure: whoever collected hands everything in, a failed answer included.

The names are those of a folder of dumps (``pods``, ``events.events.k8s.io``, ``ray/nodes``); a value is what the API
served (a List, or Ray's JSON), ``{"error": "..."}`` for what could not be read, and absent for what nobody asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from rayflight.manifests.stored import dropped_fields
from rayflight.snapshot import around, kubernetes, ray
from rayflight.snapshot.model import Cluster, Event, Gap, Pod, Ray, Snapshot
from rayflight.snapshot.times import instant

T = TypeVar("T")

_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
EVENT_SOURCES = ("events", "events.events.k8s.io")
_AROUND: Mapping[str, tuple[tuple[str, Callable[[Any], Any]], ...]] = {
    "limit_ranges": (("limitranges", around.limit_range),),
    "workloads": (("workloads", around.workload),),
    "queues": (("localqueues", around.local_queue), ("clusterqueues", around.cluster_queue)),
    "queue_places": (("pendingworkloads", around.queue_place),),
    "gangs": (("podgroups", around.gang),),
    "network_policies": (("networkpolicies", around.network_policy),),
    "rayjobs": (("rayjobs", around.rayjob),),
}
KINDS = (
    *("rayclusters", "pods", "foreign_pods", *EVENT_SOURCES, "nodes", "services", "resourcequotas"),
    "persistentvolumeclaims",
    *(source for pairs in _AROUND.values() for source, _ in pairs),
)
# What the kubelet answers, with status 200, in the place of a log that is not there any more.
_NO_LOG = ("unable to retrieve container logs for ", "failed to try resolving symlinks in path ")


def assemble(
    raw: Mapping[str, Any],
    *,
    namespace: str,
    name: str,
    taken_at: str,
    logs: Mapping[str, str] | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Snapshot:
    """The Snapshot of cluster ``name``. What is missing or unreadable becomes a gap; nothing is raised for it.

    ``asked`` is the RayCluster that was applied, where it is known.
    """
    gaps: list[Gap] = []
    pods = _objects(raw, "pods", kubernetes.pod, gaps)
    own = tuple(item for item in pods if _is_own(item, namespace, name))
    others = raw.get("foreign_pods")
    foreign = _objects(raw, "foreign_pods", kubernetes.pod, gaps) if others is not None else pods
    if others is None:
        gaps.append(Gap(source="foreign_pods", why="pods of other namespaces were not collected"))
    found = _cluster(raw, name, asked, gaps)
    if found is not None and _QUEUE_LABEL in found.labels and raw.get("workloads") is None:
        gaps.append(Gap(source="workloads", why="not collected, and only Kueue's Workload says why a cluster waits"))
    return Snapshot(
        namespace=namespace,
        name=name,
        taken_at=instant(taken_at) or taken_at,
        cluster=found,
        pods=own,
        foreign_pods=_without(foreign, own),
        events=_events(raw, gaps),
        nodes=_objects(raw, "nodes", kubernetes.node, gaps),
        quotas=_objects(raw, "resourcequotas", kubernetes.quota, gaps, field="quotas"),
        claims=_objects(raw, "persistentvolumeclaims", kubernetes.claim, gaps, field="claims"),
        services=_objects(raw, "services", kubernetes.service, gaps),
        ray=ray_side(raw, gaps),
        logs={name: text for name, text in (logs or {}).items() if not text.startswith(_NO_LOG)},
        limit_ranges=_around(raw, "limit_ranges", gaps),
        workloads=_around(raw, "workloads", gaps),
        queues=_around(raw, "queues", gaps),
        queue_places=_around(raw, "queue_places", gaps),
        gangs=_around(raw, "gangs", gaps),
        network_policies=_around(raw, "network_policies", gaps),
        rayjobs=_around(raw, "rayjobs", gaps),
        gaps=tuple(gaps),
    )


def _is_own(pod: Pod, namespace: str, name: str) -> bool:
    here = not namespace or not pod.namespace or pod.namespace == namespace
    return here and pod.labels.get(kubernetes.CLUSTER_LABEL) == name and bool(pod.role)


def _around(raw: Mapping[str, Any], field: str, gaps: list[Gap]) -> tuple[Any, ...] | None:
    """None where nobody asked: that is no gap, for most clusters have no such objects at all."""
    known = [(source, parse) for source, parse in _AROUND[field] if raw.get(source) is not None]
    failed: list[Gap] = []
    found = [_objects(raw, source, parse, failed, field=field) for source, parse in known]
    gaps += failed
    return tuple(item for items in found for item in items) if known and not failed else None


def ray_side(raw: Mapping[str, Any], gaps: list[Gap]) -> Ray | None:
    """The Ray side, or None with a gap when the dashboard did not even say its session."""
    answer = _answer(raw, "ray/version", "ray", gaps)
    if answer is None:
        return None
    if not isinstance(answer, Mapping):
        gaps.append(Gap(source="ray", why="ray/version holds no answer of Ray"))
        return None
    version, session = ray.version(answer)
    health = raw.get("ray/gcs_healthz")
    summary = raw.get("ray/nodes_summary")
    return Ray(
        session=session,
        version=version,
        gcs_healthy=_healthy(health),
        nodes=_part(raw, "ray/nodes", "ray.nodes", lambda item: ray.ray_nodes(item, _usable(summary)), gaps),
        jobs=_part(raw, "ray/jobs", "ray.jobs", ray.jobs, gaps),
        placement_groups=_part(raw, "ray/placement_groups", "ray.placement_groups", ray.placement_groups, gaps),
        pending_demands=_part(raw, "ray/cluster_status", "ray.demands", ray.pending_demands, gaps),
        usage=_part(raw, "ray/cluster_status", "ray.demands", ray.usage, []),
    )


def _healthy(answer: Any) -> bool | None:
    """The text that Ray serves, or what a client made of it; None where nobody could ask."""
    if isinstance(answer, str):
        return answer.strip() == "success"
    return answer if isinstance(answer, bool) else None


def _cluster(raw: Mapping[str, Any], name: str, asked: Mapping[str, Any] | None, gaps: list[Gap]) -> Cluster | None:
    items = _items(raw, "rayclusters", "cluster", gaps) or ()
    stored = next((item for item in items if (item.get("metadata") or {}).get("name") == name), None)
    if stored is None:
        return None
    found = kubernetes.cluster(stored)
    return replace(found, dropped=_dropped(stored, asked)) if found.generation == 1 else found


def _dropped(stored: Mapping[str, Any], asked: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Only told of the first generation: later on somebody may have taken the field out."""
    meta = stored["metadata"]
    applied = (meta.get("annotations") or {}).get(kubernetes.LAST_APPLIED)
    wanted = asked or (_json(applied) if applied else None)
    if not isinstance(wanted, Mapping):
        return ()
    return tuple(dropped_fields({"spec": wanted.get("spec") or {}}, {"spec": stored.get("spec") or {}}))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # a mask, or cut off
        return None


def _events(raw: Mapping[str, Any], gaps: list[Gap]) -> tuple[Event, ...]:
    """Both event APIs serve the same objects: one readable list is enough. Parsed one by one: a list may be 30 MB."""
    failed: list[Gap] = []
    found: dict[Any, Event] = {}
    readable = False
    for source in EVENT_SOURCES:
        known = len(failed)
        items = _objects(raw, source, partial(_event, known=found), failed, field="events")
        readable = readable or bool(items) or len(failed) == known
        found |= {uid or (source, number): item for number, (uid, item) in enumerate(it for it in items if it)}
    if not readable:
        gaps.append(failed[0])
    return tuple(sorted(found.values(), key=lambda item: item.last_at or ""))


def _event(raw: Any, known: Mapping[Any, Event]) -> tuple[str, Event] | None:
    """None for what the other API has served already."""
    uid = raw["metadata"].get("uid") or ""
    return None if uid in known else (uid, kubernetes.event(raw))


def _objects(
    raw: Mapping[str, Any], source: str, parse: Callable[[Any], T], gaps: list[Gap], field: str = ""
) -> tuple[T, ...]:
    found = []
    for item in _items(raw, source, field or source, gaps) or ():
        try:
            found.append(parse(item))
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # a dump that a person edited or cut
            gaps.append(Gap(source=field or source, why=f"an object in {source} is unreadable: {error!r}"))
    return tuple(found)


def _items(raw: Mapping[str, Any], source: str, field: str, gaps: list[Gap]) -> Sequence[Any] | None:
    answer = _answer(raw, source, field, gaps)
    if answer is None:
        return None
    items = answer.get("items") or () if isinstance(answer, Mapping) else answer
    if not isinstance(items, Sequence) or isinstance(items, str):
        gaps.append(Gap(source=field, why=f"{source} holds no list of objects"))
        return None
    return items


def _part(
    raw: Mapping[str, Any], source: str, field: str, parse: Callable[[Any], tuple[T, ...]], gaps: list[Gap]
) -> tuple[T, ...]:
    answer = _answer(raw, source, field, gaps)
    if answer is None:
        return ()
    try:
        return parse(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        gaps.append(Gap(source=field, why=f"unexpected answer of {source}: {error!r}"))
        return ()


def _answer(raw: Mapping[str, Any], source: str, field: str, gaps: list[Gap]) -> Any:
    answer = raw.get(source)
    if answer is None:
        gaps.append(Gap(source=field, why="not collected"))
    elif not _usable(answer) and isinstance(answer, Mapping):
        gaps.append(Gap(source=field, why=str(answer["error"])))
    return _usable(answer)


def _usable(answer: Any) -> Any:
    return None if isinstance(answer, Mapping) and "error" in answer else answer


def _without(pods: Sequence[Pod], own: Sequence[Pod]) -> tuple[Pod, ...]:
    mine = {item.uid for item in own}
    return tuple(item for item in pods if item.uid not in mine)
