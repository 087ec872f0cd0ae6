"""Whether a cluster still fits when it must keep away from some Kubernetes nodes. Asks for nodes; decides over them.

Counts what healthy nodes offer in all, not what is free now: who holds it may go, a node that is ill comes back for
nobody. Without the right to list nodes nothing is refused: the scheduler then says it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rayflight.errors import InvalidSpec, PermissionMissing
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import NODES
from rayflight.snapshot import capacity, kubernetes
from rayflight.snapshot.model import KubeNode


async def require_room(client: KubeClient, manifest: JsonObject, avoid: Collection[str]) -> None:
    """Raises InvalidSpec when fewer healthy nodes remain than the worker groups need."""
    try:
        found = await client.list(NODES)
    except PermissionMissing:
        return
    short = lacking(manifest, [kubernetes.node(item) for item in found.items])
    if short:
        raise InvalidSpec(
            "Too few healthy Kubernetes nodes remain for",
            which=f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}",
            why=f"without {', '.join(sorted(avoid))}, which failed a verification of this run, {'; '.join(short)}",
            next_step="mend or replace the nodes, or start a run with on_fail: fail, which avoids none",
        )


def lacking(manifest: JsonObject, nodes: Sequence[KubeNode]) -> list[str]:
    """For each group that does not fit: how many of its pods the healthy nodes can take."""
    healthy = [node for node in nodes if node.ready and not node.unschedulable]
    texts = []
    for group in manifest["spec"].get("workerGroupSpecs") or ():
        pod = kubernetes.pod(_as_pod(group, manifest["metadata"]))
        wanted = int(group.get("replicas") or 0) * int(group.get("numOfHosts") or 1)
        there = {node.name: capacity.copies(capacity.asked(pod), node, ()) for node in capacity.places(pod, healthy)}
        if sum(there.values()) < wanted:
            seen = ", ".join(f"{name}: {count}" for name, count in there.items()) or "no healthy node that matches"
            texts.append(f"group {group['groupName']} has room for {sum(there.values())} of {wanted} pods ({seen})")
    return texts


def _as_pod(group: Mapping[str, Any], cluster: Mapping[str, Any]) -> JsonObject:
    template = group["template"]
    meta = {
        **(template.get("metadata") or {}),
        "name": group["groupName"],
        "namespace": cluster["namespace"],
        "uid": "",
    }
    return {"metadata": meta, "spec": template["spec"], "status": {}}
