"""Pods that the scheduler cannot place: never, or not now (decision 12).

"Never" is said only when arithmetic over the nodes proves it and nothing could add room. The scheduler's text names
neither the taint nor the label that did not match, so it is joined with the node objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.placement import Never, Waiting, autoscaler, by_weight, never, reasons, waiting_groups
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot import capacity
from rayflight.snapshot.model import Event, KubeNode, Pod, quantity

# A node autoscaler looks every 10 s (cluster-autoscaler's scan interval, Karpenter's longest batch): before that its
# silence means nothing.
_AUTOSCALER_LOOKS = 12.0
_IGNORED = 10.0  # seconds after which a pod without any word of the scheduler that it names has none
_DEFAULT_ABSENT = 60.0  # the default scheduler is always there, but may be between two leaders
_DEFAULT = "default-scheduler"
_RETRY = 300.0
_SHOWN = 4
_CLUSTER = "ray.io/cluster"


def _check(case: Case) -> Iterable[Finding]:
    return [_judge(group) for group in waiting_groups(case)]


def _judge(group: Waiting) -> Finding:
    adding, refusing = autoscaler(group)
    if adding:
        return _node_comes(group, adding)
    if not group.nodes:
        return _unknown_room(group)
    proof = never(group)
    if proof and (refusing or group.case.lasts(group.since, _AUTOSCALER_LOOKS)):
        return _with_refusal(_proven(group, proof), refusing)
    if proof:
        return _may_be_added(group, proof)
    found = _own_pods(group) or _not_usable_now(group) or _held(group) or _scheduler_says(group)
    return _with_refusal(found, refusing)


def _proven(group: Waiting, proof: Never) -> Finding:
    return _finding(
        group,
        id=proof.id,
        title=proof.title,
        summary=proof.summary,
        next_step=proof.next_step,
        decision=proof.decision,
        nodes=proof.nodes,
    )


def _own_pods(group: Waiting) -> Finding | None:
    """It would fit, but our own pods, which do not move, stand in the way (the head on a GPU node, for example)."""
    own = [pod for pod in group.case.pods if pod.node]
    room = sum(capacity.copies(group.need(), node, own) for node in group.places)
    if not own or room >= len(group.pods):
        return None
    where = [f"{pod.name} on {pod.node}" for pod in own if pod.node in {node.name for node in group.places}]
    return _finding(
        group,
        id="own-pods-in-the-way",
        title="The cluster's own pods take the room",
        summary=(
            f"{group.name()} would fit on empty nodes, but not beside the cluster's own pods "
            f"({quoting.listed(where)}), which do not move"
        ),
        next_step="keep the head off the GPU nodes (node selector), or make requests smaller",
        decision=Decision.RETRY_ELSEWHERE,
        nodes=list(group.places),
    )


def _not_usable_now(group: Waiting) -> Finding | None:
    usable = [node for node in group.places if not capacity.refusals(group.pod, node)]
    if usable:
        return None
    said = {node.name: capacity.refusals(group.pod, node) for node in group.places}
    return _finding(
        group,
        id="nodes-not-usable-now",
        title="The nodes that fit cannot be used now",
        summary=f"{group.name()} waits: {reasons(said)}",
        next_step="uncordon or repair the nodes",
        decision=Decision.WAIT,
        nodes=list(group.places),
    )


def _held(group: Waiting) -> Finding | None:
    """Somebody holds what the pods wait for: not now, and who."""
    usable = [node for node in group.places if not capacity.refusals(group.pod, node)]
    pods = capacity.all_pods(group.case.now)
    for resource in by_weight(group):
        need = group.need()[resource]
        if any(capacity.free(node, resource, pods) >= need for node in usable):
            continue
        said = "; ".join(_holding(node, resource, pods) for node in usable[:_SHOWN])
        return _finding(
            group,
            id="resources-held-by-others",
            title="What the pods need is held by other pods",
            summary=f"{group.name()} waits for {capacity.shown(resource, need)} each: {said}",
            next_step="wait until it is released, or ask its holders",
            decision=Decision.WAIT,
            nodes=usable,
        )
    return None


def _holding(node: KubeNode, resource: str, pods: Sequence[Pod]) -> str:
    held = [
        f"{pod.namespace}/{pod.name} ({amount:g}{', terminating' if pod.deleting_since else ''}{_of_cluster(pod)})"
        for pod, amount in capacity.holders(node, resource, pods)
    ]
    has = capacity.shown(resource, quantity(node.allocatable.get(resource, "0")))
    return f"node {node.name} has {has}, held by {quoting.listed(held)}"


def _of_cluster(pod: Pod) -> str:
    """Ray clusters that nobody took away are the commonest holders: which one, and since when."""
    cluster = pod.labels.get(_CLUSTER)
    return f", RayCluster {cluster} since {pod.created_at}" if cluster else ""


def _with_refusal(finding: Finding, refusing: Event | None) -> Finding:
    if refusing is None:
        return finding
    quoted = quoting.event(refusing)
    backs_off = "backoff" in refusing.message and finding.decision is Decision.FAIL
    return replace(
        finding,
        evidence=(*finding.evidence, quoted),
        summary=f"{finding.summary}; the node autoscaler adds none: {quoting.clip(refusing.message, 200)}",
        decision=Decision.RETRY_AFTER if backs_off else finding.decision,
        retry_after=_RETRY if backs_off else finding.retry_after,
    )


def _node_comes(group: Waiting, adding: Event) -> Finding:
    return _finding(
        group,
        id="node-autoscaler-acting",
        title="A node autoscaler makes room",
        summary=f"{group.name()} waits for a new node: {quoting.clip(adding.message, 300)}",
        next_step="wait for the node",
        decision=Decision.WAIT,
        extra=(quoting.event(adding),),
    )


def _may_be_added(group: Waiting, proof: Never) -> Finding:
    return _finding(
        group,
        id="unschedulable",
        title="The scheduler cannot place the pods",
        summary=f"{proof.summary}; a node autoscaler may still act",
        next_step="wait some seconds for a node autoscaler",
        decision=Decision.WAIT,
    )


def _unknown_room(group: Waiting) -> Finding:
    gap, said = group.case.now.gap("nodes"), group.pod.condition("PodScheduled")
    return _finding(
        group,
        id="unschedulable",
        title="The scheduler cannot place the pods",
        summary=(
            f"{group.name()} cannot be scheduled: {quoting.clip(said.message if said else '', 300)}; whether it ever "
            f"fits is not known, for the nodes could not be read ({gap.why if gap else 'none seen'})"
        ),
        next_step="allow `list nodes`, then it can be said whether they fit",
        decision=Decision.WAIT,
    )


def _scheduler_says(group: Waiting) -> Finding:
    said = group.pod.condition("PodScheduled")
    return _finding(
        group,
        id="unschedulable",
        title="The scheduler cannot place the pods",
        summary=f"{group.name()} cannot be scheduled: {quoting.clip(said.message if said else '', 300)}"
        f"{_volumes_elsewhere(group)}",
        next_step="compare the scheduler's words with affinity, spread, volumes and what other pods hold",
        decision=Decision.WAIT,
    )


def _volumes_elsewhere(group: Waiting) -> str:
    """The scheduler names neither the claim nor the place: a bound volume is only in its own zone, or on one node."""
    said = group.pod.condition("PodScheduled")
    if said is None or "volume node affinity conflict" not in said.message or not group.pod.claims:
        return ""
    return (
        f"; PersistentVolumeClaim {quoting.listed(group.pod.claims)} is bound to a volume in another zone "
        "(or on another node) than these nodes"
    )


def _finding(
    group: Waiting,
    *,
    id: str,  # noqa: A002 - the name of Finding's own field
    title: str,
    summary: str,
    next_step: str,
    decision: Decision,
    nodes: Sequence[KubeNode] = (),
    extra: tuple[Evidence, ...] = (),
) -> Finding:
    said = group.pod.condition("PodScheduled")
    evidence = ((quoting.condition(f"pod {group.pod.name}", said),) if said else ()) + extra
    return Finding(
        id=id,
        title=title,
        layer=Layer.KUBERNETES,
        summary=summary,
        next_step=next_step,
        decision=decision,
        objects=(*quoting.objects(group.pods), *(f"node/{node.name}" for node in nodes)),
        evidence=evidence,
        since=group.since,
        retry_after=_RETRY if decision is Decision.RETRY_AFTER else None,
    )


def _ignored(case: Case) -> Iterable[Finding]:
    """A scheduler that does not exist says nothing at all: no condition, no event."""
    if not case.can_see("events"):
        return
    pods = [
        pod
        for pod in case.pods
        if not pod.node
        and not pod.scheduling_gates
        and pod.phase in ("Pending", "")
        and pod.condition("PodScheduled") is None
        and case.lasts(pod.created_at, _DEFAULT_ABSENT if pod.scheduler == _DEFAULT else _IGNORED)
        and not case.noticed(pod)
    ]
    if pods:
        names = sorted({pod.scheduler for pod in pods})
        yield Finding(
            id="no-scheduler",
            title="No scheduler looks at the pods",
            layer=Layer.KUBERNETES,
            summary=(
                f"{quoting.pods_named(pods)} is Pending without a word of a scheduler: {', '.join(names)} does not run"
            ),
            next_step="name a scheduler that runs in this cluster (spec.schedulerName), or start it",
            decision=Decision.RETRY_AFTER if names == [_DEFAULT] else Decision.FAIL,
            objects=quoting.objects(pods),
            evidence=(
                Evidence(
                    object=f"pod {pods[0].name}", text=f"schedulerName {pods[0].scheduler}, no condition, no event"
                ),
            ),
            since=pods[0].created_at,
            retry_after=_RETRY if names == [_DEFAULT] else None,
        )


RULES = (
    Rule(
        ids=(
            "taint-not-tolerated",
            "selector-matches-no-node",
            "request-exceeds-nodes",
            "no-node-fits",
            "device-plugin-absent",
            "not-enough-in-total",
            "own-pods-in-the-way",
            "nodes-not-usable-now",
            "resources-held-by-others",
            "node-autoscaler-acting",
            "unschedulable",
        ),
        depth=Depth.SCHEDULING,
        check=_check,
    ),
    Rule(ids=("no-scheduler",), depth=Depth.SCHEDULING, check=_ignored),
)
