"""One Snapshot of a cluster: from the watches, from lists shared with others, from Ray if it answers. Never writes.

What cannot be read becomes a gap named after the Snapshot's field; only total blindness raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rayflight.backends.base import ClusterRef, RayJobs
from rayflight.backends.kube_around import around
from rayflight.backends.kube_tails import LogTails
from rayflight.backends.kube_topics import CLUSTER_LABEL
from rayflight.backends.kube_watch import ClusterWatch
from rayflight.backends.ray_side import look
from rayflight.errors import ApiError
from rayflight.kube.client import JsonObject
from rayflight.kube.hub import Hub
from rayflight.kube.resources import CLAIMS, PODS, QUOTAS, SERVICES, Resource
from rayflight.snapshot.assemble import assemble
from rayflight.snapshot.model import Gap, Ray, Snapshot

FOREIGN_SECONDS = 15.0  # all pods of all namespaces are a large list


class Observer:
    """Takes snapshots of one cluster."""

    def __init__(self, hub: Hub, ref: ClusterRef, watch: ClusterWatch, jobs: Callable[[], RayJobs]) -> None:
        self._hub, self._ref, self._watch, self._jobs = hub, ref, watch, jobs
        self._tails = LogTails(hub.client)

    async def observe(self, *, ray: bool) -> Snapshot:
        """Everything now seen. Raises the API's error when neither the cluster nor its pods were ever readable."""
        await self._watch.settled()
        blind = self._watch.blind()
        if blind is not None:
            raise blind
        raw, tails, (side, ray_gaps) = await asyncio.gather(
            self._kubernetes(), self._tails.read(self._watch.objects("pods")), self._ray(asked=ray)
        )
        snapshot = assemble(
            raw, namespace=self._ref.namespace, name=self._ref.name, taken_at=datetime.now(UTC).isoformat(), logs=tails
        )
        gaps = [gap for gap in snapshot.gaps if gap.source != "ray"]
        return replace(snapshot, ray=side, gaps=(*gaps, *self._watch.stale(), *ray_gaps), relists=self._watch.relists())

    async def _kubernetes(self) -> dict[str, Any]:
        raw = self._watch.raw()
        try:
            cluster = await self._watch.cluster()
            raw["rayclusters"] = {"items": [cluster] if cluster else []}
        except ApiError as error:
            raw["rayclusters"] = {"error": str(error)}
        pods = self._watch.objects("pods")
        namespace = self._ref.namespace
        quotas, claims, services, foreign, beside = await asyncio.gather(
            self._recent(QUOTAS, namespace),
            self._recent(CLAIMS, namespace),
            self._recent(SERVICES, namespace, CLUSTER_LABEL),  # of all clusters: one list serves all who wait here
            self._foreign(pods),
            around(self._hub.lately.list, next(iter(raw["rayclusters"].get("items") or ()), None), pods, namespace),
        )
        if "items" in services:
            services["items"] = [item for item in services["items"] if _cluster_of(item) == self._ref.name]
        raw |= {"resourcequotas": quotas, "persistentvolumeclaims": claims, "services": services}
        raw |= {"foreign_pods": foreign, **beside}
        if "items" in raw["events"]:
            raw["events"]["items"] += self._watch.named_events(claim_names(pods))
        return raw

    async def _foreign(self, pods: Sequence[JsonObject]) -> dict[str, Any]:
        """Who holds what ours wait for: asked only while a pod has no node, since the list is large."""
        if all((pod.get("spec") or {}).get("nodeName") for pod in pods):
            return {"items": []}
        running = "status.phase!=Succeeded,status.phase!=Failed"
        return await self._recent(PODS, None, fields=running, seconds=FOREIGN_SECONDS)

    async def _recent(
        self, resource: Resource, namespace: str | None, selector: str = "", fields: str = "", seconds: float = 5.0
    ) -> dict[str, Any]:
        try:
            found = await self._hub.lately.list(resource, namespace, selector=selector, fields=fields, seconds=seconds)
        except ApiError as error:
            return {"error": str(error)}
        return {"items": found}

    async def _ray(self, *, asked: bool) -> tuple[Ray | None, list[Gap]]:
        if not asked:
            return None, [Gap(source="ray", why="not asked for this time")]
        if not any(_is_running_head(pod) for pod in self._watch.objects("pods")):
            return None, [Gap(source="ray", why="the head pod does not run (yet)")]
        return await look(self._jobs())


def claim_names(pods: Sequence[JsonObject]) -> frozenset[str]:
    """The volume claims that these pods mount."""
    volumes = (volume for pod in pods for volume in (pod.get("spec") or {}).get("volumes") or ())
    named = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes)
    return frozenset(str(name) for name in named if name)


def _cluster_of(item: JsonObject) -> str:
    return str((item["metadata"].get("labels") or {}).get(CLUSTER_LABEL, ""))


def _is_running_head(pod: JsonObject) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get("ray.io/node-type") == "head" and (pod.get("status") or {}).get("phase") == "Running"
