"""Objects of the Kubernetes API as one line each, for signs to be matched against and for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

SEEKER = "wait-gcs-ready"
Json = Mapping[str, Any]


def line(item: Json, *, gone: bool = False) -> str:
    """The object's kind, name and state in words. Kinds that nobody taught it show their conditions."""
    kind, metadata = item["kind"], item["metadata"]
    if kind == "Event":
        about = item.get("involvedObject") or item.get("regarding") or {}
        said = item.get("message") or item.get("note", "")
        return f"Event {about.get('kind')}/{about.get('name')} {item.get('reason')} {' '.join(str(said).split())}"
    words = [kind, metadata["name"]]
    if gone:
        return " ".join([*words, "gone"])
    words += _WORDS.get(kind, _other)(item)
    if metadata.get("deletionTimestamp"):
        words.append("deleting")
    return " ".join(words)


def seeks_head(item: Json) -> bool:
    """Whether it is a worker pod whose init container looks for the head at this moment."""
    told = (item.get("status") or {}).get("initContainerStatuses") or ()
    return any(it["name"] == SEEKER and "running" in it["state"] for it in told)


def failed_checks(log: Sequence[tuple[float, str]], ready: float) -> Iterator[tuple[float, str]]:
    """Of that container's log: checks that failed though they began when the head was Ready; it sleeps 5 s between two.

    >>> list(failed_checks([(43.0, "43 seconds elapsed: Waiting"), (91.0, "91 seconds elapsed: Waiting")], 20.0))
    [(91.0, 'failed, begun with a Ready head: 91 seconds elapsed: Waiting')]
    """
    for (before, _), (at, text) in pairwise(log):
        if before + 5 > ready:
            yield at, f"failed, begun with a Ready head: {text}"


def _pod(item: Json) -> Iterator[str]:
    status = item.get("status") or {}
    yield str(status.get("phase"))
    if item["spec"].get("nodeName"):
        yield f"on={item['spec']['nodeName']}"
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            yield f"ready={condition['status']}"
        elif condition["type"] == "DisruptionTarget" or condition["status"] != "True":
            yield f"{condition['type']}={condition['status']}:{condition.get('reason', '')}"
    if status.get("reason"):
        yield f"reason={status['reason']}"
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            yield from _container(container)


def _container(container: Json) -> Iterator[str]:
    name = container["name"]
    if container.get("restartCount"):
        yield f"{name} restarts={container['restartCount']}"
    for which in ("state", "lastState"):
        for state, detail in (container.get(which) or {}).items():
            if state == "terminated" and detail.get("reason") != "Completed":
                yield f"{name} terminated:{detail.get('reason')}:{detail.get('exitCode')}"
            elif state == "waiting" and detail.get("reason") not in ("PodInitializing", "ContainerCreating"):
                yield f"{name} waiting:{detail.get('reason')}"
    for resources in container.get("allocatedResourcesStatus") or ():
        for device in resources.get("resources") or ():
            if device.get("health") != "Healthy":
                yield f"{device.get('resourceID')} {device.get('health')}"


def _node(item: Json) -> Iterator[str]:
    for condition in (item.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            yield f"Ready={condition['status']}"
    if item["spec"].get("unschedulable"):
        yield "unschedulable"
    allocatable = (item.get("status") or {}).get("allocatable") or {}
    yield f"gpu={allocatable.get('nvidia.com/gpu', '0')}"
    taints = sorted(f"{taint['key']}:{taint['effect']}" for taint in item["spec"].get("taints") or ())
    yield f"taints={','.join(taints)}"


def _raycluster(item: Json) -> Iterator[str]:
    groups = item["spec"].get("workerGroupSpecs") or ()
    yield f"desired={sum(int(group.get('replicas') or 0) for group in groups)}"
    if item["spec"].get("suspend"):
        yield "suspended"
    yield from _other(item)


def _other(item: Json) -> Iterator[str]:
    for condition in (item.get("status") or {}).get("conditions") or ():
        yield f"{condition['type']}={condition['status']}:{condition.get('reason', '')}"


_WORDS = {"Pod": _pod, "Node": _node, "RayCluster": _raycluster}
