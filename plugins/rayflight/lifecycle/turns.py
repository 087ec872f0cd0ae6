"""Keeps a sweep within its limit: at most ``at_once`` clusters of one dag run have pods, the others wait their turn.

Every cluster is created suspended (no pods, no GPUs); the oldest ``at_once`` are resumed. The queue is the clusters
themselves, in their order of creation, so half-built clusters cannot block each other and no counter can be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from rayflight.backends.base import ClusterRef
from rayflight.errors import InvalidSpec
from rayflight.labels import run_selector
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.specs import ClusterSpec


def queued(spec: ClusterSpec, at_once: int | None) -> ClusterSpec:
    """The spec as it is created in a sweep. Raises InvalidSpec where Kueue already decides who runs."""
    if at_once is None:
        return spec
    if spec.queue is not None:
        raise InvalidSpec(
            "Two queues for one cluster:",
            which=spec.name or "",
            why=f"at_once={at_once} and Kueue's queue {spec.queue} would both suspend and resume it",
            next_step="leave out at_once and give the limit to Kueue's ClusterQueue",
        )
    return spec.replace(extra={**spec.extra, "suspend": True})


def ahead(ref: ClusterRef, clusters: Sequence[ClusterRef], at_once: int) -> int:
    """How many clusters must land before this one's turn; 0 means that it is its turn. Pure."""
    order = sorted(clusters, key=lambda item: (item.created_at or "", item.name))
    place = next((index for index, item in enumerate(order) if item.uid == ref.uid), len(order))
    return max(0, place - at_once + 1)


async def take_turn(tools: Tools, flight: Flight, ref: ClusterRef) -> str:
    """Resume the cluster if it is its turn; returns what is waited for."""
    if flight.at_once is None:
        return "somebody suspended the cluster (spec.suspend)"
    before = ahead(ref, await tools.backend.find(flight.namespace, run_selector(flight.owner)), flight.at_once)
    if before:
        return f"{before} cluster(s) of this run must land first (at most {flight.at_once} at once)"
    tools.say("It is the turn of cluster %s", ref)
    await tools.backend.resume(ref)
    return "the cluster was resumed"
