"""Where the ranks go: one bundle on each GPU that Ray offers, one on each worker node without a GPU. No measuring."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

_HEAD = "node:__internal_head__"
_SLIVER = 0.001  # of the resource `node:IP` that every node has 1.0 of
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Seat:
    """The place of one rank."""

    node_id: str
    node_ip: str
    gpu: bool


class NoRoomError(Exception):
    """The bundles could not be placed in time; the message says what was free."""


def wait_for_seats(gpus: int, cpu_nodes: int, deadline: float) -> list[Seat]:
    """The seats, as soon as Ray offers as many as expected; at the deadline, those that there are."""
    while True:
        found = seats(ray.nodes())
        enough = sum(seat.gpu for seat in found) >= gpus and sum(not seat.gpu for seat in found) >= cpu_nodes
        if enough or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL_SECONDS)


def seats(nodes: list[dict[str, Any]]) -> list[Seat]:
    """One seat per GPU, and one per worker node without GPUs; the head only where there is nothing else.

    A head that offers GPUs is a fault of its own (head-offers-no-gpu): no rank would train there.
    """
    alive = sorted(
        (node for node in nodes if node["Alive"]), key=lambda node: (node["NodeManagerAddress"], node["NodeID"])
    )
    workers = [node for node in alive if _HEAD not in node["Resources"]]
    return [
        Seat(node["NodeID"], node["NodeManagerAddress"], gpu=bool(gpus))
        for node in workers or alive
        for gpus in [int(node["Resources"].get("GPU", 0))]
        for _ in range(gpus or 1)
    ]


def place(wanted: list[Seat], seconds: float) -> PlacementGroup:
    """All bundles at once, or none. Raises NoRoomError."""
    by_label = "bundle_label_selector" in inspect.signature(placement_group).parameters
    options = {"bundle_label_selector": [{"ray.io/node-id": seat.node_id} for seat in wanted]} if by_label else {}
    group = placement_group([_bundle(seat) for seat in wanted], strategy="PACK", **options)
    if group.wait(seconds):
        return group
    remove_placement_group(group)
    free = ray.available_resources()
    text = ", ".join(f"{name} {amount:g}" for name, amount in sorted(free.items()) if name in ("CPU", "GPU"))
    raise NoRoomError(f"no room for {len(wanted)} bundles within {seconds:g} s; free in Ray: {text or 'nothing'}")


def _bundle(seat: Seat) -> dict[str, float]:
    return {**({"GPU": 1.0} if seat.gpu else {}), f"node:{seat.node_ip}": _SLIVER}
