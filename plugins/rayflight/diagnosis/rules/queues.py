"""Clusters and pods that wait in a queue: not a fault."""

from __future__ import annotations

from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.findings import Decision, Evidence, Finding, Layer

_RETURN = 10.0  # seconds; a retry then waits until the cluster may go on
_QUEUE = "kueue.x-k8s.io/queue-name"


def _suspended(case: Case) -> Iterable[Finding]:
    cluster = case.cluster
    if cluster is None or not cluster.suspended:
        return
    queue = cluster.labels.get(_QUEUE)
    if queue and any(item.owner == cluster.uid for item in case.now.workloads or ()):
        return  # its Workload says more
    who = f"Kueue holds it in queue {queue}" if queue else "somebody set spec.suspend"
    yield Finding(
        id="queued-by-kueue" if queue else "suspended-by-hand",
        title="The cluster is suspended",
        layer=Layer.KUBERNETES,
        summary=f"RayCluster {cluster.name} is suspended: {who}; it has no pods until that changes"
        f"{', and what ran on it is lost' if case.flying else ''}",
        next_step="look at the Workload's conditions for the missing quota" if queue else "set spec.suspend to false",
        decision=Decision.RETRY_AFTER if case.flying else Decision.WAIT,
        retry_after=_RETURN if case.flying else None,
        objects=(f"raycluster/{cluster.name}", *((f"localqueue/{queue}",) if queue else ())),
        evidence=(Evidence(object=f"RayCluster {cluster.name}", text="spec.suspend: true"),),
        since=cluster.created_at,
    )


def _gated(case: Case) -> Iterable[Finding]:
    pods = [pod for pod in case.pods if pod.scheduling_gates]
    if pods:
        gates = sorted({gate for pod in pods for gate in pod.scheduling_gates})
        yield Finding(
            id="pods-gated",
            title="Pods wait behind a scheduling gate",
            layer=Layer.KUBERNETES,
            summary=f"{quoting.pods_named(pods)} may not be scheduled yet: gate {', '.join(gates)}",
            next_step="whoever set the gate removes it; for Kueue look at the Workload",
            decision=Decision.WAIT,
            objects=quoting.objects(pods),
            evidence=(
                Evidence(
                    object=f"pod {pods[0].name}", text=f"schedulingGates: {', '.join(gates)}", at=pods[0].created_at
                ),
            ),
            since=pods[0].created_at,
        )


RULES = (
    # KubeRay takes all pods of a suspended cluster: no job outlives that.
    Rule(ids=("queued-by-kueue", "suspended-by-hand"), depth=Depth.ADMISSION, check=_suspended, ends_jobs=True),
    Rule(ids=("pods-gated",), depth=Depth.ADMISSION, check=_gated),
)
