"""Worker pods that stay away from Kubernetes nodes, by name. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rayflight.specs.pods import KubeObject

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def avoid_nodes(manifest: KubeObject, nodes: Collection[str]) -> None:
    """Add to each worker group what keeps its pods from these nodes, beside every wish that it has already."""
    if not nodes:
        return
    for group in manifest["spec"].get("workerGroupSpecs") or []:
        pod = group["template"]["spec"]
        pod["affinity"] = _avoiding(pod.get("affinity") or {}, nodes)


def _avoiding(affinity: KubeObject, nodes: Collection[str]) -> KubeObject:
    """Terms are alternatives, so each needs it. A field takes one value: ``NotIn`` stands once for each node."""
    of_nodes: dict[str, Any] = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(_REQUIRED) or {}
    away = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in sorted(nodes)]
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or []), *away]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    return {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: {**required, "nodeSelectorTerms": terms}}}
