"""``rayflight://verified/<shape>``: an Airflow asset that is updated when a cluster of that shape passed verification.

A training DAG that is scheduled on it flies when the pool was found good. The shape of a task may be a template, so the
event goes through an alias; DAGs are scheduled on the asset itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.lifecycle.flight import Flight

VERIFIED = AssetAlias("rayflight-verified")


def verified_pool(shape: str) -> Asset:
    """What a DAG is scheduled on: ``DAG(..., schedule=verified_pool("gpu-2x1"))``."""
    return Asset(f"rayflight://verified/{shape}")


def announce(context: Context, flight: Flight, result: Mapping[str, Any]) -> None:
    """Say that this shape was verified, with where and how many rows passed. A shape without a name has no asset."""
    shape, events = str(flight.spec.get("name") or ""), context.get("outlet_events")
    if not shape or events is None:
        return
    rows = result["checks"]
    extra = {
        "cluster": result["cluster"]["name"],
        "namespace": flight.namespace,
        "archive": flight.archive,
        "simulated": bool(flight.spec.get("simulated")),
        "checks": len(rows),
        "warned": [row["id"] for row in rows if row["verdict"] == "warned"],
        "nodes": sorted({str(row["facts"]["node"]) for row in rows if row.get("facts", {}).get("node")}),
    }
    events[VERIFIED].add(verified_pool(shape), extra=extra)
