"""Raw objects of both layers for the archive, with secrets masked. Reads only; what cannot be read is said in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_observe import claim_names
from rayflight.backends.kube_topics import CLUSTER_LABEL, concerns
from rayflight.errors import ApiError
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import (
    CLAIMS,
    EVENTS,
    JOBS,
    LIMIT_RANGES,
    NODES,
    PODS,
    QUOTAS,
    RAYCLUSTERS,
    SERVICES,
    Resource,
)
from rayflight.masking import masked
from rayflight.rayjobs.client import RayJobsClient
from rayflight.snapshot.model import Gap

RAY_SECONDS = 15.0


async def dump(client: KubeClient, ref: ClusterRef, jobs: RayJobsClient) -> dict[str, Any]:
    """File name to JSON data."""
    selector = f"{CLUSTER_LABEL}={ref.name}"
    kinds: dict[str, tuple[Resource, str | None, str]] = {
        "pods": (PODS, ref.namespace, selector),
        "services": (SERVICES, ref.namespace, selector),
        "jobs.batch": (JOBS, ref.namespace, selector),
        "events": (EVENTS, ref.namespace, ""),
        "persistentvolumeclaims": (CLAIMS, ref.namespace, ""),
        "resourcequotas": (QUOTAS, ref.namespace, ""),
        "limitranges": (LIMIT_RANGES, ref.namespace, ""),
        "nodes": (NODES, None, ""),
    }
    cluster, side, after, *lists = await asyncio.gather(
        _cluster(client, ref), ray_answers(jobs), _aftermath(jobs), *(_items(client, *kind) for kind in kinds.values())
    )
    found = dict(zip(kinds, lists, strict=True))
    _only_ours(found, ref)
    raw = {"rayclusters": cluster, **found}
    return {
        **{f"{name}.json": masked(data) for name, data in raw.items()},
        **{f"ray/{name}.json": masked(data) for name, data in (side | after).items()},
    }


def _only_ours(found: dict[str, dict[str, Any]], ref: ClusterRef) -> None:
    """Other people's events and claims, and nodes without our pods, are no business of this archive."""
    pods: list[JsonObject] = found["pods"].get("items", [])
    claims = claim_names(pods)
    about = concerns("events", ref.name)
    places = {(pod.get("spec") or {}).get("nodeName") for pod in pods}
    keep: dict[str, Callable[[JsonObject], bool]] = {
        "events": lambda item: _about(item) in claims or (about is not None and about(_about(item))),
        "persistentvolumeclaims": lambda item: item["metadata"]["name"] in claims,
        "nodes": lambda item: item["metadata"]["name"] in places,
    }
    for name, wanted in keep.items():
        if "items" in found[name]:
            found[name]["items"] = [item for item in found[name]["items"] if wanted(item)]


def _about(item: JsonObject) -> str:
    return str((item.get("involvedObject") or {}).get("name", ""))


async def _cluster(client: KubeClient, ref: ClusterRef) -> dict[str, Any]:
    try:
        found = await client.get(RAYCLUSTERS, ref.name, ref.namespace)
    except ApiError as error:
        return {"error": str(error)}
    return {"items": [found] if found else []}


async def _items(client: KubeClient, resource: Resource, namespace: str | None, selector: str) -> dict[str, Any]:
    try:
        return {"items": (await client.list(resource, namespace, selector=selector)).items}
    except ApiError as error:
        return {"error": str(error)}


async def ray_answers(jobs: RayJobsClient) -> dict[str, Any]:
    """What Ray's dashboard says, by name; an error in place of what it did not say."""
    try:
        async with asyncio.timeout(RAY_SECONDS):
            raw = await jobs.raw_state()
    except (ApiError, TimeoutError) as error:
        return {"error": {"error": str(error) or f"no answer within {RAY_SECONDS:.0f} s"}}
    return _said(raw)


async def _aftermath(jobs: RayJobsClient) -> dict[str, Any]:
    try:
        async with asyncio.timeout(RAY_SECONDS):
            return _said(await jobs.aftermath())
    except (ApiError, TimeoutError) as error:
        return {"train_runs": {"error": str(error) or f"no answer within {RAY_SECONDS:.0f} s"}}


def _said(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"error": data.why} if isinstance(data, Gap) else data for name, data in raw.items()}
