"""What stands around a cluster and may decide over it: queues, limit ranges, policies, RayJobs. Reads only, on need.

Each is asked for only while it can be what the cluster waits for, so that an ordinary flight needs no right to it. A
kind that the API server does not have is left out; one that may not be read is an error text, and so a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from rayflight.errors import ApiError
from rayflight.kube import resources
from rayflight.kube.client import JsonObject
from rayflight.kube.resources import Resource

GetList = Callable[[Resource, str | None], Awaitable[list[JsonObject]]]

KUEUE_VERSIONS = ("v1beta2", "v1beta1")
QUEUE = "kueue.x-k8s.io/queue-name"
_ORIGIN = "ray.io/originated-from-crd"
_INIT = "wait-gcs-ready"


async def around(
    get: GetList, cluster: JsonObject | None, pods: Sequence[JsonObject], namespace: str
) -> dict[str, Any]:
    """Raw answers by the names of a folder of dumps."""
    wanted = dict(_wanted(cluster, pods, namespace)) if cluster else {}
    answers = await asyncio.gather(*(answer(get, resource, space) for resource, space in wanted.values()))
    return {name: found for name, found in zip(wanted, answers, strict=True) if found is not None}


def _wanted(
    cluster: JsonObject, pods: Sequence[JsonObject], namespace: str
) -> dict[str, tuple[Sequence[Resource], str | None]]:
    labels = cluster["metadata"].get("labels") or {}
    found: dict[str, tuple[Sequence[Resource], str | None]] = {}
    if QUEUE in labels:  # whether it waits or was taken away stands in its Workload, and in nothing else
        found["workloads"] = (kueue(resources.WORKLOADS), namespace)
    if QUEUE in labels and ((cluster.get("spec") or {}).get("suspend") or not pods or _any_gated(pods)):
        found |= {
            "localqueues": (kueue(resources.LOCAL_QUEUES), namespace),
            "clusterqueues": (kueue(resources.CLUSTER_QUEUES), None),
            "pendingworkloads": (kueue(pending_in(labels[QUEUE])), namespace),
        }
    if labels.get(_ORIGIN) == "RayJob":
        found["rayjobs"] = ((resources.RAYJOBS,), namespace)
    if _refused(cluster):
        found["limitranges"] = ((resources.LIMIT_RANGES,), namespace)
    if any(_looks_for_head(pod) for pod in pods):
        found["networkpolicies"] = ((resources.NETWORK_POLICIES,), namespace)
    return found


def kueue(resource: Resource) -> tuple[Resource, ...]:
    """The versions under which Kueue may serve it, the newest first."""
    return tuple(Resource(resource.group, it, resource.plural, resource.namespaced) for it in KUEUE_VERSIONS)


def pending_in(queue: str) -> Resource:
    """Who waits in that LocalQueue, and at which place: served by Kueue itself, behind the API server."""
    return Resource(
        "visibility.kueue.x-k8s.io", KUEUE_VERSIONS[0], f"localqueues/{quote(queue, safe='')}/pendingworkloads"
    )


async def answer(get: GetList, versions: Sequence[Resource], namespace: str | None) -> dict[str, Any] | None:
    """The list under the first version that is served; None where none is."""
    for resource in versions:
        try:
            return {"items": await get(resource, namespace)}
        except ApiError as error:
            if error.status != 404:
                return {"error": str(error)}
    return None


def _any_gated(pods: Sequence[JsonObject]) -> bool:
    return any((pod.get("spec") or {}).get("schedulingGates") for pod in pods)


def _refused(cluster: JsonObject) -> bool:
    told: Sequence[Mapping[str, Any]] = (cluster.get("status") or {}).get("conditions") or ()
    return any(item.get("type") == "ReplicaFailure" and item.get("status") == "True" for item in told)


def _looks_for_head(pod: JsonObject) -> bool:
    states = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return any(item.get("name") == _INIT and "running" in (item.get("state") or {}) for item in states)
