"""Proofs that pods can never be placed, and what a node autoscaler says. Pure arithmetic over the snapshot's nodes.

Proves only; a pod that passes all of it may still not fit (affinity between pods, spread, volumes' zones).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case
from rayflight.findings import Decision
from rayflight.snapshot import capacity
from rayflight.snapshot.capacity import Obstacle, Refusal
from rayflight.snapshot.model import Event, KubeNode, Pod, quantity

_AUTOSCALER_GIVES_UP = 900.0  # cluster-autoscaler's max-node-provision-time
_ADDS = ("TriggeredScaleUp", "Nominated")
_REFUSES = ("NotTriggerScaleUp",)
_SHOWN = 4

_NEVER = {
    Obstacle.TAINT: (
        "taint-not-tolerated", "No node whose taints the pods tolerate", "add the toleration to the pods' template",
    ),
    Obstacle.SELECTOR: (
        "selector-matches-no-node", "No node matches the pods' selector", "correct the selector or label the nodes",
    ),
    Obstacle.SIZE: (
        "request-exceeds-nodes", "No node is large enough for one pod", "ask for less per pod, or add larger nodes",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """A proof in words: with these nodes the pods can never be placed."""

    id: str
    title: str
    summary: str
    next_step: str
    decision: Decision
    nodes: tuple[KubeNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Unschedulable pods of one shape, and what the nodes say to them."""

    case: Case
    pods: tuple[Pod, ...]
    nodes: tuple[KubeNode, ...]

    @property
    def pod(self) -> Pod:
        """One of them: they are alike."""
        return self.pods[0]

    @property
    def places(self) -> tuple[KubeNode, ...]:
        """Nodes that could take one if nobody else ran there."""
        return capacity.places(self.pod, self.nodes)

    @property
    def since(self) -> str | None:
        """When the scheduler first said so."""
        said = self.pod.condition("PodScheduled")
        return said.since if said else None

    def need(self) -> Mapping[str, float]:
        """What one of them asks for."""
        return capacity.asked(self.pod)

    def name(self) -> str:
        """The pods, for a sentence."""
        return quoting.pods_named(self.pods)


def waiting_groups(case: Case) -> list[Waiting]:
    """Pods that the scheduler calls unschedulable, by head and worker group."""
    shapes: dict[tuple[str, str], list[Pod]] = {}
    for pod in case.pods:
        said = pod.condition("PodScheduled")
        if (
            not pod.node
            and not pod.scheduling_gates
            and said
            and said.status == "False"
            and said.reason == "Unschedulable"
        ):
            shapes.setdefault((pod.role, pod.group), []).append(pod)
    return [Waiting(case=case, pods=tuple(pods), nodes=case.now.nodes) for pods in shapes.values()]


def autoscaler(group: Waiting) -> tuple[Event | None, Event | None]:
    """(it adds a node, it refuses to): the later word counts, and a promise is good for 15 minutes."""
    told = [item for pod in group.pods for item in group.case.events(*_ADDS, *_REFUSES, about=pod)]
    told += [
        item
        for pod in group.pods
        for item in group.case.events("FailedScheduling", about=pod)
        if "karpenter" in item.source
    ]
    last = max(told, key=lambda item: item.last_at or "", default=None)
    if last is None:
        return None, None
    if last.reason in _ADDS:
        return (None, None) if group.case.lasts(last.last_at, _AUTOSCALER_GIVES_UP) else (last, None)
    return None, last


def never(group: Waiting) -> Never | None:
    """The proof, or None where there is none."""
    return (_one(group) or _all(group)) if group.nodes else None


def _one(group: Waiting) -> Never | None:
    """No node could take even one of them, whoever else runs."""
    if group.places:
        return None
    said = {node.name: _lasting(group.pod, node) for node in group.nodes}
    meant = _meant(group, said)
    alone = all(len(found) == 1 for found in meant.values())
    kinds = {found[0].obstacle for found in meant.values()} if alone else set()
    if kinds == {Obstacle.SIZE} and (finding := _no_devices(group, meant) or _withdrawn(group)):
        return finding
    name, title, next_step = (
        _NEVER[kinds.pop()]
        if len(kinds) == 1
        else ("no-node-fits", "No node can take the pods", "compare the pods' template with the nodes")
    )
    words = reasons(meant) + (_others(len(said) - len(meant), said, meant))
    return Never(
        id=name,
        title=title,
        summary=f"{group.name()} can never be scheduled: {words}",
        next_step=next_step,
        decision=Decision.FAIL,
        nodes=tuple(node for node in group.nodes if node.name in meant),
    )


def _meant(group: Waiting, said: Mapping[str, Sequence[Refusal]]) -> Mapping[str, Sequence[Refusal]]:
    """The nodes that the spec speaks of: selected, with the device it wants, and with the least against the pod."""
    selected = {
        node.name: said[node.name]
        for node in group.nodes
        if all(item.obstacle is not Obstacle.SELECTOR for item in said[node.name])
    }
    chosen = selected or said
    device = capacity.gpu_resource(capacity.limits(group.pod))
    offering = {node.name for node in group.nodes if device and quantity(node.allocatable.get(device, "0"))}
    chosen = {name: found for name, found in chosen.items() if name in offering} or chosen
    least = min(len(found) for found in chosen.values())
    return {name: found for name, found in chosen.items() if len(found) == least}


def _lasting(pod: Pod, node: KubeNode) -> list[Refusal]:
    return [item for item in capacity.refusals(pod, node) if item.obstacle is not Obstacle.PASSING]


def reasons(said: Mapping[str, Sequence[Refusal]]) -> str:
    """What the nodes say, for a sentence."""
    shown = [f"node {name} {' and '.join(item.text for item in found)}" for name, found in list(said.items())[:_SHOWN]]
    return "; ".join(shown)


def _others(count: int, said: Mapping[str, Sequence[Refusal]], meant: Mapping[str, Sequence[Refusal]]) -> str:
    if not count:
        return ""
    kinds = sorted({item.obstacle.value for name, found in said.items() if name not in meant for item in found})
    return f"; {count} other node{'s' if count > 1 else ''} excluded by {', '.join(kinds)}"


def _no_devices(group: Waiting, meant: Mapping[str, Sequence[Refusal]]) -> Never | None:
    """Nodes that look like GPU nodes, yet offer none: the device plugin, not the request, is at fault."""
    resource = next(iter(meant.values()))[0].resource
    nodes = [node for node in group.nodes if node.name in meant]
    devices = capacity.gpu_resource(capacity.limits(group.pod)) == resource
    if not devices or any(quantity(node.allocatable.get(resource, "0")) for node in group.nodes):
        return None
    looking = [node for node in nodes if _looks_like_gpu(node, resource)]
    if not looking:
        return None
    names = quoting.listed([node.name for node in looking])
    had = {node.name: node.capacity[resource] for node in looking if quantity(node.capacity.get(resource, "0"))}
    lost = f" (capacity still says {had}: it has just gone)" if had else ""
    return Never(
        id="device-plugin-absent",
        title="GPU nodes offer no GPUs",
        summary=(
            f"{group.name()} asks for {resource}, but no node offers any: GPU nodes {names} have 0 allocatable{lost}. "
            f"The device plugin does not run there, or finds no device{_plugin(group)}"
        ),
        next_step="check the device plugin's pods and the driver on these nodes",
        decision=Decision.RETRY_AFTER,
        nodes=tuple(looking),
    )


def _withdrawn(group: Waiting) -> Never | None:
    """It would fit if the node offered all the devices that it has: the kubelet calls some of them unhealthy."""
    resource = capacity.gpu_resource(capacity.limits(group.pod))
    if resource is None:
        return None
    need = group.need()[resource]
    whole = [
        replace(node, allocatable={**node.allocatable, resource: node.capacity.get(resource, "0")})
        for node in group.nodes
        if quantity(node.allocatable.get(resource, "0")) < need <= quantity(node.capacity.get(resource, "0"))
    ]
    fit = capacity.places(group.pod, whole)
    if not fit:
        return None
    offered = {node.name: node.allocatable.get(resource, "0") for node in group.nodes}
    told = "; ".join(
        f"node {it.name} offers {offered[it.name]} of its {it.capacity[resource]} {resource}" for it in fit
    )
    return Never(
        id="request-exceeds-nodes",
        title="No node is large enough for one pod",
        summary=f"{group.name()} asks for {capacity.shown(resource, need)} and cannot be scheduled now: {told}; the "
        "others are unhealthy or withdrawn",
        next_step="have the node's missing GPUs mended (their Xid, the device plugin's log), or use another node",
        decision=Decision.RETRY_AFTER,
        nodes=tuple(node for node in group.nodes if node.name in {item.name for item in fit}),
    )


def _plugin(group: Waiting) -> str:
    """The device plugin's own pod, where it is Pending itself: often the same taint keeps it out."""
    for pod in group.case.now.foreign_pods:
        said = pod.condition("PodScheduled")
        if "device-plugin" in pod.name and said and said.status == "False":
            return f"; its pod {pod.namespace}/{pod.name} cannot be scheduled itself: {quoting.clip(said.message, 200)}"
    return ""


def _looks_like_gpu(node: KubeNode, resource: str) -> bool:
    vendor = resource.partition("/")[0]
    keys = [*node.labels, *(taint.key for taint in node.taints)]
    return resource in node.capacity or any(key.startswith(vendor) for key in keys)


def _all(group: Waiting) -> Never | None:
    """Each fits, but the nodes together cannot hold all of the cluster's pods, head included."""
    members = [pod for pod in group.case.pods if (pod.role, pod.group) == (group.pod.role, group.pod.group)]
    fit = sum(capacity.copies(group.need(), node, ()) for node in group.places)
    if fit < len(members):
        return _too_many(group, members, fit)
    own = [pod for pod in group.case.pods if capacity.asked(pod)]
    for resource in by_weight(group):
        askers = [pod for pod in own if capacity.asked(pod).get(resource)]
        nodes = {node.name: node for pod in askers for node in capacity.places(pod, group.nodes)}
        need = sum(capacity.asked(pod)[resource] for pod in askers)
        have = sum(quantity(node.allocatable.get(resource, "0")) for node in nodes.values())
        if need > have:
            return _in_total(group, resource, len(askers), need, list(nodes.values()))
    return None


def by_weight(group: Waiting) -> list[str]:
    """GPUs first: they are what people ask about."""
    gpu = capacity.gpu_resource(capacity.limits(group.pod))
    return sorted(group.need(), key=lambda name: (name != gpu, name))


def _too_many(group: Waiting, members: Sequence[Pod], fit: int) -> Never:
    resource = next((name for name in by_weight(group) if _copies_of(group, name) < len(members)), by_weight(group)[0])
    each = capacity.shown(resource, group.need()[resource])
    total = capacity.shown(resource, group.need()[resource] * len(members))
    kind = f"worker pods of group {group.pod.group}" if group.pod.role == "worker" else "head pod"
    summary = (
        f"Not enough {resource}: {len(members)} {kind} need {total} ({each} each), "
        f"but the nodes that may take them hold {fit} such pods at most, even when empty "
        f"({_offers(group.places, resource)})"
    )
    return _shortage(group, resource, summary)


def _copies_of(group: Waiting, resource: str) -> int:
    return sum(capacity.copies({resource: group.need()[resource]}, node, ()) for node in group.places)


def _in_total(group: Waiting, resource: str, pods: int, need: float, nodes: Sequence[KubeNode]) -> Never:
    summary = (
        f"Not enough {resource}: the cluster's {pods} pods, head included, need {capacity.shown(resource, need)}, "
        f"more than all nodes that may take them have together ({_offers(nodes, resource)})"
    )
    return _shortage(group, resource, summary)


def _shortage(group: Waiting, resource: str, summary: str) -> Never:
    whole = [replace(node, allocatable={**node.allocatable, **node.capacity}) for node in group.nodes]
    ill = [
        f"{node.name} {quantity(node.capacity[resource]) - quantity(node.allocatable.get(resource, '0')):g}"
        for node in group.places
        if capacity.gpu_resource({resource: "1"})
        and quantity(node.capacity.get(resource, "0")) > quantity(node.allocatable.get(resource, "0"))
    ]
    healed = ill and _all(replace(group, nodes=tuple(whole))) is None
    return Never(
        id="not-enough-in-total",
        title="The nodes together are too small for the cluster",
        summary=summary + (f"; unhealthy or withdrawn: {', '.join(ill)}" if healed else ""),
        next_step="ask for fewer or smaller workers, or add nodes",
        decision=Decision.RETRY_AFTER if healed else Decision.FAIL,
        nodes=group.places,
    )


def _offers(nodes: Sequence[KubeNode], resource: str) -> str:
    each = [f"{node.name} has {quantity(node.allocatable.get(resource, '0')):g}" for node in nodes]
    if resource == "memory":
        each = [f"{node.name} has {capacity.shown(resource, quantity(node.allocatable[resource]))}" for node in nodes]
    return quoting.listed(each)
