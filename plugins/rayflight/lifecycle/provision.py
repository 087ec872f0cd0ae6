"""Creates the cluster of an attempt, or adopts the one that this same attempt made; keeps sweeps within their limit."""

from __future__ import annotations

from rayflight.backends.base import ClusterRef
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.replacing import nodes_to_avoid
from rayflight.lifecycle.turns import queued


async def provision(tools: Tools, flight: Flight) -> ClusterRef:
    """Ask everything first, then create. Raises InvalidSpec, PermissionMissing, ForeignObject, ApiUnreachable."""
    spec = queued(flight.cluster_spec, flight.at_once)
    for warning in await tools.backend.preflight(spec, flight.namespace):
        tools.say("Warning: %s", warning)
    avoid = await nodes_to_avoid(tools, flight)
    if avoid:
        tools.say("Keeping away from %s: a verification of this run failed there", ", ".join(avoid))
    ref = await tools.backend.create(spec, flight.owner, flight.namespace, avoid=avoid)
    tools.say("Cluster %s (uid %s) of attempt %d is there", ref, ref.uid, flight.owner.attempt)
    await tools.archive.write_json(
        f"{flight.folder}/cluster-{ref.name}.json", {"cluster": ref.to_dict(), "spec": dict(flight.spec)}
    )
    return ref
