"""Machines and devices: a node that is not Ready, pods that it threw out or refused, GPUs that it calls unhealthy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot import capacity
from rayflight.snapshot.model import KubeNode, Pod, quantity
from rayflight.states import JobStatus

_BLINK = 30.0  # seconds that a kubelet may call its node not Ready; one that is silent (Unknown) was waited for already
_SPOT = (
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("karpenter.sh/capacity-type", "spot"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
_DISRUPTED = {
    "PreemptionByScheduler": "a pod of higher priority took its place",
    "DeletionByTaintManager": "its node got a taint that it does not tolerate",
    "EvictionByEvictionAPI": "somebody drained its node",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node ran short of a resource or shut down",
}
_REFUSED_BY_NODE = ("UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "NodeShutdown")
_THROWN_OUT = ("Evicted", "Preempted", "Preempting", "TaintManagerEviction", "NodeShutdown")


def _not_ready(case: Case) -> Iterable[Finding]:
    for node in case.now.nodes:
        pods = [pod for pod in case.now.pods if pod.node == node.name]
        ready = next((item for item in node.conditions if item.type == "Ready"), None)
        if not pods or ready is None or ready.status == "True" or case.cluster is None:
            continue
        lasting = ready.status == "Unknown" or case.lasts(ready.since, _BLINK)
        evidence = (quoting.condition(f"node {node.name}", ready),)
        yield Finding(
            id="node-not-ready",
            title="A node is not Ready",
            layer=Layer.KUBERNETES,
            summary=(
                f"Node {node.name}{_spot(node)} is not Ready since {ready.since} "
                f"({ready.reason}: {quoting.clip(ready.message, 200)}); "
                f"on it {'runs' if len(pods) == 1 else 'run'} {quoting.pods_named(pods)}"
            ),
            next_step="repair or drain the node; a new cluster goes to other nodes",
            decision=Decision.RETRY_ELSEWHERE if lasting else Decision.WAIT,
            objects=(f"node/{node.name}", *quoting.objects(pods)),
            evidence=evidence,
            since=ready.since,
        )


def _spot(node: KubeNode) -> str:
    return ", a spot node that its cloud may take back," if any(node.labels.get(k) == v for k, v in _SPOT) else ""


def _evicted(case: Case) -> Iterable[Finding]:
    if case.cluster is None:
        return
    signs: dict[str, tuple[str, Evidence]] = {}
    for told in case.pod_events(*_THROWN_OUT):
        signs[told.name] = (told.message, quoting.event(told))
    for pod in case.now.pods:
        disrupted = pod.condition("DisruptionTarget")
        if pod.phase == "Failed" and pod.reason == "Evicted":
            at = disrupted.since if disrupted else pod.deleting_since or pod.started_at
            ended = Evidence(object=f"pod {pod.name}", text=f"{pod.reason}: {pod.message}", at=at)
            signs[pod.name] = (pod.message, ended)
        elif disrupted and disrupted.status == "True":
            # The kubelet says which resource, or that its node shuts down; the others' words only repeat the reason.
            own = disrupted.message if disrupted.reason == "TerminationByKubelet" else ""
            why = own.strip() or _DISRUPTED.get(disrupted.reason, disrupted.message)
            signs[pod.name] = (f"{why} ({disrupted.reason})", quoting.condition(f"pod {pod.name}", disrupted))
    for name, (words, evidence) in signs.items():
        yield Finding(
            id="pod-evicted",
            title="Kubernetes threw a pod out",
            layer=Layer.KUBERNETES,
            summary=f"Pod {name} was evicted: {quoting.clip(words, 300)}",
            next_step="see which resource the node lacked, or who drained or preempted the pod; set requests that hold",
            decision=Decision.RETRY_ELSEWHERE,
            objects=(f"pod/{name}",),
            evidence=(evidence,),
            since=evidence.at,
        )


def _refused(case: Case) -> Iterable[Finding]:
    for pod in case.pods:
        if pod.phase == "Failed" and pod.reason in _REFUSED_BY_NODE:
            yield _refusal(pod)


def _refusal(pod: Pod) -> Finding:
    evidence = (Evidence(object=f"pod {pod.name}", text=f"{pod.reason}: {pod.message}", at=pod.started_at),)
    return Finding(
        id="node-refuses-pod",
        title="A node refused the pod after the scheduler had chosen it",
        layer=Layer.KUBERNETES,
        summary=f"Node {pod.node} refused pod {pod.name}: {pod.reason}: {quoting.clip(pod.message, 300)}",
        next_step="look at the node's devices and kubelet; cordon it if a device is lost",
        decision=Decision.RETRY_ELSEWHERE,
        objects=(f"pod/{pod.name}", f"node/{pod.node}"),
        evidence=evidence,
        since=pod.started_at or pod.created_at,
    )


def _unhealthy(case: Case) -> Iterable[Finding]:
    for pod in case.pods:
        ill = [device for item in pod.containers for device in item.unhealthy_devices]
        if ill:
            yield Finding(
                id="gpu-unhealthy",
                title="A GPU in use is unhealthy",
                layer=Layer.KUBERNETES,
                summary=f"The kubelet of node {pod.node} calls {quoting.listed(ill)} of pod {pod.name} unhealthy",
                next_step="cordon the node and have the device checked; a new cluster gets other devices",
                decision=Decision.RETRY_ELSEWHERE,
                objects=(*quoting.objects([pod]), f"node/{pod.node}"),
                evidence=(
                    Evidence(object=f"pod {pod.name}", text=f"allocatedResourcesStatus Unhealthy: {', '.join(ill)}"),
                ),
            )


def _fewer_gpus(case: Case) -> Iterable[Finding]:
    """Devices that the kubelet took back while pods hold them: the plugin is gone, or calls them unhealthy."""
    if not case.can_see("nodes"):
        return
    for node in case.now.nodes:
        pods = [pod for pod in case.pods if pod.node == node.name and pod.phase == "Running"]
        resource = next((name for pod in pods if (name := capacity.gpu_resource(capacity.limits(pod)))), None)
        if resource is None:
            continue
        held = sum(pod.limit(resource) for pod in pods)
        offered = quantity(node.allocatable.get(resource, "0"))
        if held > offered:
            yield _taken_back(case, node, pods, f"{offered:g} {resource} allocatable, {held:g} held by our pods")


def _taken_back(case: Case, node: KubeNode, pods: Sequence[Pod], said: str) -> Finding:
    job = case.job
    return KINDS["node-offers-fewer-gpus"].finding(
        f"Node {node.name} offers fewer GPUs than it gave away ({said}): its device plugin is gone or calls devices "
        "unhealthy; "
        f"what runs may go on, a pod that restarts does not come back",
        objects=(f"node/{node.name}", *quoting.objects(pods)),
        evidence=(Evidence(object=f"node {node.name}", text=said, at=case.now.taken_at),),
        decision=Decision.RETRY_ELSEWHERE if job and job.status is JobStatus.FAILED else None,
    )


RULES = (
    Rule(ids=("node-offers-fewer-gpus",), depth=Depth.NODE, check=_fewer_gpus),
    Rule(ids=("node-not-ready",), depth=Depth.NODE, check=_not_ready),
    Rule(ids=("pod-evicted",), depth=Depth.ADMISSION, check=_evicted, past=True),
    Rule(ids=("node-refuses-pod",), depth=Depth.NODE, check=_refused),
    Rule(ids=("gpu-unhealthy",), depth=Depth.NODE, check=_unhealthy),
)
