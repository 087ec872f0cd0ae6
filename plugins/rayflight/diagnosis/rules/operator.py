"""The KubeRay operator: absent, standing still, or refusing the spec by an event alone."""

from __future__ import annotations

from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.labels import MAX_CLUSTER_NAME
from rayflight.snapshot.model import Cluster

_SILENCE = 10.0  # seconds; a working operator writes its first event 0.2-0.4 s after the create
_STILL = 10.0  # seconds without a replacement for a lost pod; a working operator makes it within one
_INVALID = ("InvalidRayClusterSpec", "InvalidRayClusterMetadata", "InvalidRayClusterStatus")


def _invalid(case: Case) -> Iterable[Finding]:
    """An invalid spec gives one Warning event and nothing else: no status, no condition, for ever."""
    cluster = case.cluster
    if cluster is None or cluster.observed_generation >= cluster.generation > 0:
        return
    # The same reason is used for mere warnings.
    found = [item for item in case.events(*_INVALID) if "spec warning" not in item.message]
    if found:
        last = found[-1]
        evidence = (quoting.event(last),)
        yield Finding(
            id="cluster-spec-invalid",
            title="The KubeRay operator refuses the spec",
            layer=Layer.USER,
            summary=f"RayCluster {cluster.name} will never run: {quoting.clip(last.message)}",
            next_step="correct the spec; the operator says this in an event only",
            decision=Decision.FAIL,
            objects=(f"raycluster/{cluster.name}",),
            evidence=evidence,
            since=last.first_at,
        )
    elif len(cluster.name) > MAX_CLUSTER_NAME and not cluster.has_status:
        yield Finding(
            id="cluster-spec-invalid",
            title="The KubeRay operator refuses the spec",
            layer=Layer.USER,
            summary=(
                f"RayCluster {cluster.name} will never run: its name has {len(cluster.name)} characters, "
                f"{MAX_CLUSTER_NAME} are allowed"
            ),
            next_step="use a shorter name",
            decision=Decision.FAIL,
            objects=(f"raycluster/{cluster.name}",),
            evidence=(Evidence(object=f"RayCluster {cluster.name}", text="no .status", at=cluster.created_at),),
            since=cluster.created_at,
        )


def _absent(case: Case) -> Iterable[Finding]:
    cluster = case.cluster
    if cluster is None or cluster.has_status or cluster.suspended or case.now.pods:
        return
    if not case.can_see("events", "pods") or not case.lasts(cluster.created_at, _SILENCE):
        return
    if any(item.kind == "RayCluster" and item.uid == cluster.uid for item in case.now.events):
        return
    yield Finding(
        id="operator-absent",
        title="No KubeRay operator works on this cluster",
        layer=Layer.KUBERAY,
        summary=(
            f"RayCluster {cluster.namespace}/{cluster.name} was created at {cluster.created_at}, and nobody touched "
            "it: no status, no event, no pod. The KubeRay operator does not run or does not watch this namespace"
        ),
        next_step="check the operator's pod and its --watch-namespace; once it works, try again",
        decision=Decision.RETRY_AFTER,
        objects=(f"raycluster/{cluster.name}",),
        evidence=(
            Evidence(object=f"RayCluster {cluster.name}", text="no .status, no events, no pods", at=cluster.created_at),
        ),
        since=cluster.created_at,
        retry_after=120.0,
    )


def _still(case: Case) -> Iterable[Finding]:
    """A pod is gone, nothing refuses another, and none is made: the status then is stale, not wrong."""
    cluster = case.cluster
    if cluster is None or not cluster.has_status or not case.missing_pods() or not case.can_see("events"):
        return
    if any(item.type == "ReplicaFailure" and item.status == "True" for item in cluster.conditions):
        return
    there = {pod.name for pod in case.now.pods}
    gone = [item for item in case.pod_events("Killing") if item.name not in there]
    if not gone or not case.lasts(max(gone[-1].last_at or "", _resumed(cluster)), _STILL):
        return
    lost = gone[-1]
    active = ("CreatedHeadPod", "CreatedWorkerPod", "FailedToCreateHeadPod", "FailedToCreateWorkerPod")
    if any((item.last_at or "") >= (lost.last_at or "") for item in case.events(*active)):
        return
    evidence = (quoting.event(lost),)
    yield Finding(
        id="operator-standing-still",
        title="The KubeRay operator does not replace a lost pod",
        layer=Layer.KUBERAY,
        summary=(
            f"Pod {lost.name} ended at {lost.last_at}, {case.missing_pods()} of {cluster.desired_pods} pods are "
            "missing, and the KubeRay operator has neither made another nor said why not: it does not work, and the "
            "status is stale"
        ),
        next_step="check the operator's pod",
        decision=Decision.RETRY_AFTER,
        objects=(f"raycluster/{cluster.name}",),
        evidence=evidence,
        since=lost.last_at,
        retry_after=120.0,
    )


def _resumed(cluster: Cluster) -> str:
    """When it was let go on after a suspension, which takes all pods and is followed by new ones only then."""
    told = next((item for item in cluster.conditions if item.type == "RayClusterSuspended"), None)
    return told.since or "" if told and told.status == "False" else ""


def _bounds(case: Case) -> Iterable[Finding]:
    """KubeRay 1.5.0 takes minReplicas above maxReplicas without a word, and makes fewer pods than were asked for."""
    for group in case.cluster.groups if case.cluster else ():
        if group.minimum > group.maximum:
            said = f"minReplicas {group.minimum} is greater than maxReplicas {group.maximum}"
            yield Finding(
                id="min-above-max",
                title="minReplicas is greater than maxReplicas",
                layer=Layer.USER,
                summary=f"Worker group {group.name} of RayCluster {case.now.name}: {said}",
                next_step="correct the bounds; some versions of KubeRay accept them and make fewer pods",
                decision=Decision.FAIL,
                objects=(f"raycluster/{case.now.name}",),
                evidence=(Evidence(object=f"worker group {group.name}", text=said),),
                since=case.cluster.created_at if case.cluster else None,
            )


def _stale(case: Case) -> Iterable[Finding]:
    """``state`` is sticky: nothing but a suspension takes ``ready`` back."""
    cluster, head = case.cluster, case.now.head
    said = head.condition("PodScheduled") if head else None
    if cluster is None or cluster.state != "ready" or cluster.suspended or head is None or head.node:
        return
    if said is not None and said.status == "False":
        yield KINDS["status-is-stale"].finding(
            f"The status of RayCluster {cluster.name} says ready, but that is old: head pod {head.name} is Pending "
            "since "
            f"{said.since}: {quoting.clip(said.message, 200)}",
            objects=(f"raycluster/{cluster.name}", *quoting.objects([head])),
            evidence=(quoting.condition(f"pod {head.name}", said),),
        )


RULES = (
    Rule(ids=("min-above-max",), depth=Depth.ADMISSION, check=_bounds),
    Rule(ids=("cluster-spec-invalid",), depth=Depth.ADMISSION, check=_invalid),
    Rule(ids=("operator-absent",), depth=Depth.ADMISSION, check=_absent),
    Rule(ids=("operator-standing-still",), depth=Depth.ADMISSION, check=_still),
    Rule(ids=("status-is-stale",), depth=Depth.CLUSTER, check=_stale),
)
