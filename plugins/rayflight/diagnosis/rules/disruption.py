"""Nodes that are taken away while pods run on them: drained by a person, reclaimed by a cloud, or simply gone.

Kubernetes says so on the node, not on the pods that vanish with it; who was where is known from an earlier moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Decision, Evidence, Finding
from rayflight.snapshot.model import KubeNode, Pod
from rayflight.states import JobStatus

# Set by clouds and autoscalers on a node that they are about to take.
_RECLAIMED = (
    "cloud.google.com/impending-node-termination",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/rebalance-recommendation",
    "aws-node-termination-handler/scheduled-maintenance",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "kubernetes.azure.com/scalesetpriority-evicting",
    "node.kubernetes.io/out-of-service",
)


def _check(case: Case) -> Iterable[Finding]:
    if case.cluster is None or not case.can_see("nodes", "pods"):
        return
    lost = _lost(case)
    for node in case.now.nodes:
        gone = [pod for pod in lost if pod.node == node.name]
        if gone and (found := _reclaimed(case, node, gone) or _drained(case, node, gone)):
            yield found
    there = {node.name for node in case.now.nodes}
    for name in sorted({pod.node for pod in lost if pod.node and pod.node not in there}):
        if there:
            yield _vanished(case, name, [pod for pod in lost if pod.node == name])


def _lost(case: Case) -> list[Pod]:
    """Pods that are going, and those of an earlier moment that are gone."""
    there = {pod.uid for pod in case.now.pods}
    before = [pod for pod in (case.earlier.pods if case.earlier else ()) if pod.uid not in there]
    return [*(pod for pod in case.now.pods if pod.deleting_since or pod.phase == "Failed"), *before]


def _decision(case: Case, gone: Iterable[Pod]) -> Decision:
    """What ended with the node needs another cluster; a worker that is replaced may be waited for."""
    job = case.job
    failed = job is not None and job.status is JobStatus.FAILED
    head = any(pod.role == "head" for pod in gone) and case.flying
    return Decision.RETRY_ELSEWHERE if failed or head else Decision.WAIT


def _since(gone: Iterable[Pod]) -> str | None:
    return min((pod.deleting_since for pod in gone if pod.deleting_since), default=None)


def _reclaimed(case: Case, node: KubeNode, gone: list[Pod]) -> Finding | None:
    taint = next((item for item in node.taints if item.key.startswith(_RECLAIMED)), None)
    if taint is None:
        return None
    return KINDS["node-reclaimed"].finding(
        f"Node {node.name} is being taken away (taint {taint.key}), and its pods are evicted: "
        f"{quoting.pods_named(gone)}",
        objects=(f"node/{node.name}", *quoting.objects(gone)),
        evidence=(Evidence(object=f"node {node.name}", text=f"taint {taint.key}={taint.value}:{taint.effect}"),),
        since=_since(gone),
        decision=_decision(case, gone),
    )


def _drained(case: Case, node: KubeNode, gone: list[Pod]) -> Finding | None:
    if not node.unschedulable:
        return None
    return KINDS["node-drained"].finding(
        f"Node {node.name} is cordoned, and {quoting.pods_named(gone)} left it: somebody drains it",
        objects=(f"node/{node.name}", *quoting.objects(gone)),
        evidence=(Evidence(object=f"node {node.name}", text="spec.unschedulable: true"),),
        since=_since(gone),
        decision=_decision(case, gone),
    )


def _vanished(case: Case, name: str, gone: list[Pod]) -> Finding:
    return KINDS["node-gone"].finding(
        f"Node {name} is not there any more, and {quoting.pods_named(gone)} went with it",
        objects=(f"node/{name}", *quoting.objects(gone)),
        evidence=(Evidence(object=f"node {name}", text="not in the list of nodes", at=case.now.taken_at),),
        since=_since(gone),
        decision=_decision(case, gone),
    )


RULES = (Rule(ids=("node-reclaimed", "node-drained", "node-gone"), depth=Depth.NODE, check=_check, past=True),)
