"""What of a deleted cluster is still there, asked from the API itself and said in words. Deletes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_topics import CLUSTER_LABEL, belongs
from rayflight.errors import PermissionMissing, RequestRejected
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import CLAIMS, JOBS, PODS, RAYCLUSTERS, SECRETS, SERVICE_ACCOUNTS, SERVICES, Resource
from rayflight.snapshot.kubernetes import deleting_since

# What KubeRay makes for a cluster, and what Rayflight does. The cluster and its pods must be readable; a kind that may
# not be listed is left out: it could neither be named nor waited for.
_BY_LABEL = (SERVICES, JOBS, CLAIMS)
_BY_NAME = (SECRETS, SERVICE_ACCOUNTS)
_KINDS = {
    RAYCLUSTERS: "RayCluster",
    PODS: "pod",
    SERVICES: "service",
    JOBS: "job",
    CLAIMS: "volume claim",
    SECRETS: "secret",
    SERVICE_ACCOUNTS: "service account",
}


async def remains(client: KubeClient, ref: ClusterRef) -> list[str]:
    """One line per object that the cluster of this UID owns or bears the label of; empty when it has gone for good."""
    cluster = await client.get(RAYCLUSTERS, ref.name, ref.namespace)
    pods = (await client.list(PODS, ref.namespace, selector=_selector(ref))).items
    lists = await asyncio.gather(
        *(_labelled(client, resource, ref) for resource in _BY_LABEL),
        *(_named(client, resource, ref) for resource in _BY_NAME),
    )
    left = [(RAYCLUSTERS, cluster)] if cluster is not None and cluster["metadata"]["uid"] == ref.uid else []
    left += [(PODS, pod) for pod in pods]
    left += [(resource, item) for resource, items in zip((*_BY_LABEL, *_BY_NAME), lists, strict=True) for item in items]
    return [words(resource, item) for resource, item in left if resource is RAYCLUSTERS or belongs(item, ref.uid)]


def words(resource: Resource, item: JsonObject) -> str:
    """``pod x on gpu-1 (terminating since …, finalizers …)``."""
    meta = item["metadata"]
    node = (item.get("spec") or {}).get("nodeName")
    asked = deleting_since(meta)
    details = [f"terminating since {asked}"] if asked else []
    if resource is PODS and not details:
        details = [str((item.get("status") or {}).get("phase") or "Unknown")]
    if meta.get("finalizers"):
        details.append(f"finalizers {', '.join(meta['finalizers'])}")
    where = f" on {node}" if node else ""
    return f"{_KINDS[resource]} {meta['name']}{where}" + (f" ({', '.join(details)})" if details else "")


def _selector(ref: ClusterRef) -> str:
    return f"{CLUSTER_LABEL}={ref.name}"


async def _labelled(client: KubeClient, resource: Resource, ref: ClusterRef) -> Sequence[JsonObject]:
    try:
        return (await client.list(resource, ref.namespace, selector=_selector(ref))).items
    except (PermissionMissing, RequestRejected):
        return ()


async def _named(client: KubeClient, resource: Resource, ref: ClusterRef) -> Sequence[JsonObject]:
    """KubeRay names these like the cluster; another thing of that name is not the cluster's."""
    try:
        found = await client.get(resource, ref.name, ref.namespace)
    except (PermissionMissing, RequestRejected):
        return ()
    owned = found is not None and any(
        owner.get("uid") == ref.uid for owner in found["metadata"].get("ownerReferences") or ()
    )
    return (found,) if found is not None and owned else ()
