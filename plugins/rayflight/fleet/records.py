"""One verification as small documents: one per Kubernetes node, with each GPU's own verdict and figures. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayflight.findings import Check
from rayflight.labels import digest
from rayflight.states import Verdict

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """When and for whom a cluster was verified. ``at`` is RFC 3339 in UTC."""

    at: str
    cluster: str
    uid: str
    dag_id: str
    run_id: str
    shape: str = ""
    simulated: bool = False

    @property
    def file(self) -> str:
        """Sorts by time; two clusters that are verified in the same second do not meet."""
        return f"{re.sub('[^0-9TZ]', '', self.at)}-{digest(self.uid, self.at, length=8)}.json"


def records(
    occasion: Occasion, nodes: Mapping[str, str], checks: Sequence[Check], result: Mapping[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """Document by Kubernetes node. ``nodes``: worker pod to node; ``result``: what the probe printed."""
    ranks = list((result or {}).get("ranks") or ())
    made: dict[str, dict[str, Any]] = {}
    for node in sorted(set(filter(None, nodes.values()))):
        pods = {pod for pod, where in nodes.items() if where == node}
        bad = [check for check in checks if check.verdict == Verdict.FAILED and _about(check, node, pods)]
        gpus = [gpu for rank in ranks if rank.get("pod") in pods for gpu in _gpus(rank, bad)]
        made[node] = {
            "schema": SCHEMA,
            "at": occasion.at,
            "node": node,
            "cluster": occasion.cluster,
            "dag_id": occasion.dag_id,
            "run_id": occasion.run_id,
            "shape": occasion.shape,
            "simulated": occasion.simulated,
            "verdict": str(Verdict.FAILED if bad else Verdict.PASSED),
            "failed": sorted({check.id for check in bad}),
            "gpus": gpus,
        }
    return made


def _about(check: Check, node: str, pods: set[str]) -> bool:
    """A row over the whole cluster blames no node."""
    facts = check.facts
    return facts.get("node") == node or (not facts.get("node") and str(facts.get("pod")) in pods)


def _gpus(rank: Mapping[str, Any], bad: Sequence[Check]) -> list[dict[str, Any]]:
    """The devices that this rank was given, by UUID. A rank without a UUID tells nothing about a device."""
    listed = list(rank.get("devices") or ())
    by_index = {str(at): device for at, device in enumerate(listed)}
    by_uuid = {device.get("uuid"): device for device in listed}
    found = [by_index.get(str(it)) or by_uuid.get(str(it)) for it in rank.get("gpu_ids") or ()]
    mine = [check for check in bad if _hits(check, rank)]
    return [
        {
            "uuid": device["uuid"],
            "name": device.get("name") or "",
            "pod": rank.get("pod") or "",
            "verdict": str(Verdict.FAILED if mine else Verdict.PASSED),
            "failed": sorted({check.id for check in mine}),
            "figures": figures(rank),
        }
        for device in found
        if device and device.get("uuid")
    ]


def _hits(check: Check, rank: Mapping[str, Any]) -> bool:
    facts = check.facts
    if facts.get("rank") is not None:
        return bool(facts["rank"] == rank.get("rank"))
    return facts.get("pod") in (None, rank.get("pod"))


def figures(rank: Mapping[str, Any]) -> dict[str, float]:
    """Everything measured that has a unit in its name: ``copy.to_device_gbps``, ``compute.bf16.tflops``, …"""
    return {key: value for part in ("copy", "compute", "collective") for key, value in _units(part, rank.get(part))}


def _units(prefix: str, data: Any) -> Iterable[tuple[str, float]]:
    if not isinstance(data, Mapping):
        return
    for key, value in data.items():
        name = f"{prefix}.{key}".replace(".formats.", ".")
        if isinstance(value, Mapping):
            yield from _units(name, value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and key.endswith(("gbps", "tflops")):
            yield name, float(value)
