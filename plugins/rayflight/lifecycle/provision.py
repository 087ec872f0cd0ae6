"""Creates the cluster of an attempt, or adopts the one that this same attempt made; keeps sweeps within their limit."""

from __future__ import annotations

from rayflight.backends.base import ClusterRef
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.turns import queued


async def provision(tools: Tools, flight: Flight) -> ClusterRef:
    """Ask everything first, then create. Raises InvalidSpec, PermissionMissing, ForeignObject, ApiUnreachable."""
    spec = queued(flight.cluster_spec, flight.at_once)
    for warning in await tools.backend.preflight(spec, flight.namespace):
        tools.say("Warning: %s", warning)
    ref = await tools.backend.create(spec, flight.owner, flight.namespace)
    tools.say("Cluster %s (uid %s) of attempt %d is there", ref, ref.uid, flight.owner.attempt)
    await tools.archive.write_json(
        f"{flight.folder}/cluster-{ref.name}.json", {"cluster": ref.to_dict(), "spec": dict(flight.spec)}
    )
    return ref
