"""One Snapshot from raw answers by name. Pure: whoever collected hands everything in, a failed answer included.

The names are those of a folder of dumps (``pods``, ``events.events.k8s.io``, ``ray/nodes``); a value is what the API
served (a List, or Ray's JSON), ``{"error": "..."}`` for what could not be read, and absent for what nobody asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rayflight.snapshot import kubernetes, ray
from rayflight.snapshot.model import Cluster, Event, Gap, Pod, Ray, Snapshot
from rayflight.snapshot.times import instant

T = TypeVar("T")

EVENT_SOURCES = ("events", "events.events.k8s.io")


def assemble(
    raw: Mapping[str, Any], *, namespace: str, name: str, taken_at: str, logs: Mapping[str, str] | None = None
) -> Snapshot:
    """The Snapshot of cluster ``name``. What is missing or unreadable becomes a gap; nothing is raised for it."""
    gaps: list[Gap] = []
    pods = _objects(raw, "pods", kubernetes.pod, gaps)
    own = tuple(item for item in pods if item.labels.get(kubernetes.CLUSTER_LABEL) == name and item.role)
    others = raw.get("foreign_pods")
    foreign = _objects(raw, "foreign_pods", kubernetes.pod, gaps) if others is not None else pods
    if others is None:
        gaps.append(Gap(source="foreign_pods", why="pods of other namespaces were not collected"))
    return Snapshot(
        namespace=namespace,
        name=name,
        taken_at=instant(taken_at) or taken_at,
        cluster=_cluster(raw, name, gaps),
        pods=own,
        foreign_pods=_without(foreign, own),
        events=_events(raw, gaps),
        nodes=_objects(raw, "nodes", kubernetes.node, gaps),
        quotas=_objects(raw, "resourcequotas", kubernetes.quota, gaps, field="quotas"),
        claims=_objects(raw, "persistentvolumeclaims", kubernetes.claim, gaps, field="claims"),
        services=_objects(raw, "services", kubernetes.service, gaps),
        ray=ray_side(raw, gaps),
        logs=dict(logs or {}),
        gaps=tuple(gaps),
    )


def ray_side(raw: Mapping[str, Any], gaps: list[Gap]) -> Ray | None:
    """The Ray side, or None with a gap when the dashboard did not even say its session."""
    answer = _answer(raw, "ray/version", "ray", gaps)
    if answer is None:
        return None
    version, session = ray.version(answer)
    health = raw.get("ray/gcs_healthz")
    summary = raw.get("ray/nodes_summary")
    return Ray(
        session=session,
        version=version,
        gcs_healthy=health.strip() == "success" if isinstance(health, str) else None,
        nodes=_part(raw, "ray/nodes", "ray.nodes", lambda item: ray.ray_nodes(item, _usable(summary)), gaps),
        jobs=_part(raw, "ray/jobs", "ray.jobs", ray.jobs, gaps),
        placement_groups=_part(raw, "ray/placement_groups", "ray.placement_groups", ray.placement_groups, gaps),
        pending_demands=_part(raw, "ray/cluster_status", "ray.demands", ray.pending_demands, gaps),
    )


def _cluster(raw: Mapping[str, Any], name: str, gaps: list[Gap]) -> Cluster | None:
    found = _objects(raw, "rayclusters", kubernetes.cluster, gaps, field="cluster")
    return next((item for item in found if item.name == name), None)


def _events(raw: Mapping[str, Any], gaps: list[Gap]) -> tuple[Event, ...]:
    """Both event APIs serve the same objects: one readable list is enough."""
    failed: list[Gap] = []
    lists = [_items(raw, source, "events", failed) for source in EVENT_SOURCES]
    readable = [items for items in lists if items is not None]
    if not readable:
        gaps.append(failed[0])
    return kubernetes.events(*readable)


def _objects(
    raw: Mapping[str, Any], source: str, parse: Callable[[Any], T], gaps: list[Gap], field: str = ""
) -> tuple[T, ...]:
    return tuple(parse(item) for item in _items(raw, source, field or source, gaps) or ())


def _items(raw: Mapping[str, Any], source: str, field: str, gaps: list[Gap]) -> Sequence[Any] | None:
    answer = _answer(raw, source, field, gaps)
    if answer is None:
        return None
    items: Sequence[Any] = answer.get("items") or () if isinstance(answer, Mapping) else answer
    return items


def _part(
    raw: Mapping[str, Any], source: str, field: str, parse: Callable[[Any], tuple[T, ...]], gaps: list[Gap]
) -> tuple[T, ...]:
    answer = _answer(raw, source, field, gaps)
    if answer is None:
        return ()
    try:
        return parse(answer)
    except (KeyError, TypeError, ValueError) as error:
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
