"""Everything around one cluster as plain lists, as kubectl would print them: what a diagnosis elsewhere needs.

More than an archive keeps (whole namespace, all nodes, who holds them), for a person asked for it with own rights.
Reads only and masks nothing: whoever writes it must know what is secret before the logs are written. What cannot be
read is said in place, what the cluster has no kind of is left out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_around import QUEUE, answer, kueue, pending_in
from rayflight.backends.kube_dump import ray_answers
from rayflight.errors import ApiError
from rayflight.kube import resources
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import Resource
from rayflight.rayjobs.client import RayJobsClient

_OF_NAMESPACE: dict[str, Resource | tuple[Resource, ...]] = {
    "rayclusters": resources.RAYCLUSTERS,
    "rayjobs": resources.RAYJOBS,
    "pods": resources.PODS,
    "events": resources.EVENTS,
    "events.events.k8s.io": resources.NEW_EVENTS,
    "services": resources.SERVICES,
    "endpointslices": resources.ENDPOINT_SLICES,
    "resourcequotas": resources.QUOTAS,
    "limitranges": resources.LIMIT_RANGES,
    "persistentvolumeclaims": resources.CLAIMS,
    "jobs.batch": resources.JOBS,
    "networkpolicies": resources.NETWORK_POLICIES,
    "workloads": kueue(resources.WORKLOADS),
    "localqueues": kueue(resources.LOCAL_QUEUES),
    "podgroups": resources.POD_GROUPS,
}
_OF_CLUSTER: dict[str, Resource | tuple[Resource, ...]] = {
    "nodes": resources.NODES,
    "clusterqueues": kueue(resources.CLUSTER_QUEUES),
}


async def everything(client: KubeClient, ref: ClusterRef, jobs: RayJobsClient) -> dict[str, Any]:
    """File name (``pods.json``, ``ray/nodes.json``) to JSON data or text."""
    asked = {**dict.fromkeys(_OF_NAMESPACE, ref.namespace), **dict.fromkeys(_OF_CLUSTER)}
    kinds = {**_OF_NAMESPACE, **_OF_CLUSTER}
    lists = await asyncio.gather(*(_items(client, kinds[name], space) for name, space in asked.items()))
    foreign, place, side = await asyncio.gather(_foreign(client, ref), _namespace(client, ref), ray_answers(jobs))
    found = dict(zip(asked, lists, strict=True)) | {"foreign_pods": foreign, "namespace": place}
    found |= {"pendingworkloads": await _places(client, ref, found["rayclusters"])}
    files: dict[str, Any] = {f"{name}.json": data for name, data in found.items() if data is not None}
    return files | dict(_ray_file(name, data) for name, data in side.items())


def _ray_file(name: str, data: Any) -> tuple[str, Any]:
    """The health of the GCS as the text that Ray serves; all else is JSON."""
    if name != "gcs_healthz":
        return f"ray/{name}.json", data
    said = {True: "success", False: "not healthy"}
    return f"ray/{name}.txt", said[data] if isinstance(data, bool) else data


async def _items(
    client: KubeClient, wanted: Resource | tuple[Resource, ...], namespace: str | None
) -> dict[str, Any] | None:
    async def get(resource: Resource, space: str | None) -> list[JsonObject]:
        return (await client.list(resource, space)).items

    return await answer(get, wanted if isinstance(wanted, tuple) else (wanted,), namespace)


async def _places(client: KubeClient, ref: ClusterRef, rayclusters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Who waits before it in Kueue's queue; nothing for a cluster without one."""
    own = [item for item in (rayclusters or {}).get("items", ()) if item["metadata"].get("uid") == ref.uid]
    queue = next((name for item in own if (name := (item["metadata"].get("labels") or {}).get(QUEUE))), None)
    return await _items(client, kueue(pending_in(queue)), ref.namespace) if queue else None


async def _namespace(client: KubeClient, ref: ClusterRef) -> dict[str, Any] | None:
    try:
        return await client.get(resources.NAMESPACES, ref.namespace)
    except ApiError as error:
        return {"error": str(error)}


async def _foreign(client: KubeClient, ref: ClusterRef) -> dict[str, Any] | None:
    """Pods of other namespaces: only where they are and what they hold; the rest is no business of a bundle."""
    found = await _items(client, resources.PODS, None)
    if found is None or "error" in found:
        return found
    return {"items": [_held(pod) for pod in found["items"] if pod["metadata"].get("namespace") != ref.namespace]}


def _held(pod: JsonObject) -> JsonObject:
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    keep = (
        "name",
        "namespace",
        "uid",
        "labels",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    )
    parts = ("initContainers", "containers")
    sizes = ("name", "resources", "restartPolicy")
    return {
        "metadata": {key: meta[key] for key in keep if key in meta},
        "spec": {
            **{key: spec[key] for key in ("nodeName", "priority", "schedulerName") if key in spec},
            **{
                part: [{key: it[key] for key in sizes if key in it} for it in spec[part]]
                for part in parts
                if part in spec
            },
        },
        "status": {"phase": status.get("phase"), "conditions": status.get("conditions") or []},
    }
