"""The light re-check while a training runs: what both layers show without asking a device. Pure.

Judges snapshots that are taken anyway. Rows that pass or cannot be seen are left out: the matrix stands already.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayflight.findings import Check
from rayflight.snapshot.model import Snapshot
from rayflight.specs import ClusterSpec
from rayflight.states import Verdict
from rayflight.verification.kubelet import kubelet_rows
from rayflight.verification.rows import Row, counted


def fallen(spec: ClusterSpec, snapshot: Snapshot) -> tuple[Check, ...]:
    """Rows that failed: Ray's nodes and GPUs below the shape, devices that the kubelet calls ill or takes back."""
    rows = (*_counts(spec, snapshot), *kubelet_rows(snapshot))
    return tuple(row for row in rows if row.verdict == Verdict.FAILED)


def _counts(spec: ClusterSpec, snapshot: Snapshot) -> Iterator[Check]:
    if snapshot.ray is None or snapshot.gap("ray.nodes"):
        return
    pods = [group.least * group.hosts_per_replica if spec.autoscaler else group.pods for group in spec.groups]
    devices = sum(count * group.gpus for count, group in zip(pods, spec.groups, strict=True))
    alive = snapshot.ray.alive()
    lost = [pod for pod in snapshot.workers() if pod.phase != "Running"]
    facts = {"pod": lost[0].name, "node": lost[0].node} if len(lost) == 1 else {}
    nodes = Row(
        id="ray-nodes-alive",
        level=2,
        subject=f"Ray nodes of {snapshot.name}",
        expected=f"at least {counted(1 + sum(pods), 'Ray node')} ALIVE, head included",
        next_step="see the events of the pod that is missing; what ran on it is lost or starts again elsewhere",
        facts=facts,
    )
    yield nodes.judged(len(alive) >= 1 + sum(pods), f"{len(alive)} ALIVE")
    offered = sum(node.resources.get("GPU", 0.0) for node in alive)
    row = Row(
        id="gpu-count",
        level=3,
        subject=f"GPUs in Ray of {snapshot.name}",
        expected=f"at least {counted(devices, 'GPU')}",
        next_step="see which worker pod is missing; ranks that waited for its GPU wait for the next one",
        facts=facts,
    )
    yield row.judged(offered >= devices, f"{counted(offered, 'GPU')} offered by ALIVE Ray nodes")
