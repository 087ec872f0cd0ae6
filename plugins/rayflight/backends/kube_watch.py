"""One cluster's share of the watches: what is known of it now, and when it may have changed. Reads, never writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_topics import belongs, concerns, topics
from rayflight.errors import ApiError
from rayflight.kube.client import JsonObject
from rayflight.kube.http import BRIEF
from rayflight.kube.hub import Hub, Subscription
from rayflight.kube.resources import PODS, RAYCLUSTERS, Resource
from rayflight.snapshot.model import Gap

_FIELD = {"rayclusters": "cluster"}  # names of the Snapshot's fields, where they differ
_TOGETHER = 0.1  # seconds: a pod's birth is a burst of changes, worth one look


class ClusterWatch:
    """Follows one cluster of one namespace through the hub."""

    def __init__(self, hub: Hub, ref: ClusterRef) -> None:
        self._hub, self._ref = hub, ref
        self._changed = asyncio.Event()
        self._parts: dict[str, Subscription] = {
            source: hub.subscribe(topic, self._changed.set, concerns(source, ref.name))
            for source, topic in topics(ref.namespace).items()
        }

    async def settled(self) -> None:
        """Returns when every kind has been listed or is known to be unreadable."""
        await asyncio.gather(*(part.settled() for part in self._parts.values()))

    def objects(self, source: str) -> list[JsonObject]:
        """What is known of that kind."""
        return self._parts[source].objects()

    def current(self, source: str) -> bool:
        """Whether what is known of that kind is complete and not out of date."""
        return self._parts[source].synced and self._parts[source].trouble is None

    def named_events(self, names: frozenset[str]) -> list[JsonObject]:
        """Events about other objects that matter to the cluster (volume claims)."""
        return self._parts["events"].objects(lambda name: name in names)

    async def cluster(self) -> JsonObject | None:
        """The stored RayCluster, whatever its UID. That it is absent is only said after asking the API itself."""
        known = self.objects("rayclusters")
        if known:
            return known[0]
        return await self._hub.client.get(RAYCLUSTERS, self._ref.name, self._ref.namespace, patience=BRIEF)

    def left(self) -> list[tuple[Resource, JsonObject]]:
        """What is still seen of the cluster of this very UID and its pods."""
        cluster = [item for item in self.objects("rayclusters") if item["metadata"]["uid"] == self._ref.uid]
        pods = [item for item in self.objects("pods") if belongs(item, self._ref.uid)]
        return [*((RAYCLUSTERS, item) for item in cluster), *((PODS, item) for item in pods)]

    def raw(self) -> dict[str, Any]:
        """All kinds as ``snapshot.assemble`` reads them; what was never read is an ``error``."""
        answers: dict[str, Any] = {}
        for source, part in self._parts.items():
            if part.synced or part.trouble is None:
                answers[source] = {"items": part.objects()}
            else:
                answers[source] = {"error": str(part.trouble.error)}
        return answers

    def stale(self) -> list[Gap]:
        """Kinds that were read once but cannot be followed now."""
        return [
            Gap(
                source=_FIELD.get(source, source),
                # No age here: whoever says what it waits for says a change, and a growing number is none.
                why=f"cannot be followed now, what was seen last stands: {part.trouble.error}",
            )
            for source, part in self._parts.items()
            if part.synced and part.trouble is not None
        ]

    def relists(self) -> dict[str, int]:
        """By kind, how often its watch expired and a list was compared instead."""
        return {_FIELD.get(name, name): part.relists for name, part in self._parts.items() if part.relists}

    def blind(self) -> ApiError | None:
        """The error to raise when neither the cluster nor its pods could ever be read."""
        vital = [self._parts[source] for source in ("rayclusters", "pods")]
        if any(part.synced for part in vital):
            return None
        return next((part.trouble.error for part in vital if part.trouble is not None), None)

    async def changes(self, at_least_every: float) -> AsyncGenerator[None]:
        """Yields at once, then after changes (a burst counts as one) and at least every so many seconds."""
        await self.settled()
        while True:
            self._changed.clear()
            began = time.monotonic()
            yield
            rest = at_least_every - (time.monotonic() - began)
            try:
                async with asyncio.timeout(max(rest, _TOGETHER)):
                    await self._changed.wait()
                    await asyncio.sleep(_TOGETHER)
            except TimeoutError:
                continue

    def close(self) -> None:
        """Leave the feeds."""
        for part in self._parts.values():
            part.close()
