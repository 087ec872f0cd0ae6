"""Creates the cluster of an attempt, or adopts the one that this same attempt made; keeps sweeps within their limit.

Knows what was ever asked for: who looks for a flight's clusters finds them here.
"""

from __future__ import annotations

from collections.abc import Sequence

from rayflight.backends.base import ClusterRef
from rayflight.errors import ApiError
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.replacing import nodes_to_avoid
from rayflight.lifecycle.turns import queued

_ASKED = "asked.json"  # written before the request: what was never asked for was never created


async def provision(tools: Tools, flight: Flight) -> ClusterRef:
    """Ask everything first, then create. Raises InvalidSpec, PermissionMissing, ForeignObject, ApiUnreachable."""
    spec = queued(flight.cluster_spec, flight.at_once)
    for warning in await tools.backend.preflight(spec, flight.namespace):
        tools.say("Warning: %s", warning)
    avoid = await nodes_to_avoid(tools, flight)
    if avoid:
        tools.say("Keeping away from %s: a verification of this run failed there", ", ".join(avoid))
    await tools.archive.write_json(f"{flight.folder}/{_ASKED}", {"asked_at": tools.now().isoformat()})
    ref = await tools.backend.create(spec, flight.owner, flight.namespace, avoid=avoid)
    tools.say("Cluster %s (uid %s) of attempt %d is there", ref, ref.uid, flight.owner.attempt)
    await tools.archive.write_json(
        f"{flight.folder}/cluster-{ref.name}.json", {"cluster": ref.to_dict(), "spec": dict(flight.spec)}
    )
    return ref


async def clusters_of(tools: Tools, flight: Flight) -> Sequence[ClusterRef]:
    """Those of every attempt. Where nobody lets us look: none, if none was ever asked for; else it raises."""
    try:
        return await tools.backend.find(flight.namespace, flight.owner.flight_selector())
    except ApiError as error:
        for attempt in range(1, flight.owner.attempt + 1):
            names = await tools.archive.names(f"attempt-{attempt}")
            if any(name == _ASKED or name.startswith("cluster-") for name in names):
                raise
        tools.say("This flight never asked for a cluster, so nothing of it is there: %s", error)
        return ()
