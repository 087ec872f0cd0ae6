"""Arithmetic over Kubernetes nodes: what a pod asks for, where it may go, what is free, who holds the rest. Pure.

Says only what the numbers prove. What it does not model (pod affinity, topology spread, volumes' zones) is left to the
scheduler's own words; ``modelled`` tells whether a pod has such wishes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rayflight.snapshot.model import Cluster, Container, Group, KubeNode, Pod, Snapshot, Taint, Toleration, quantity

Amounts = Mapping[str, float]

_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")
_ENDED = ("Succeeded", "Failed")

# Taints that Kubernetes itself sets and removes: they say "not now", never "never".
_PASSING_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/unschedulable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cilium.io/agent-not-ready",
    "karpenter.sh/unregistered",
)


class Obstacle(StrEnum):
    """Why a pod may not go to a node."""

    SELECTOR = "selector"
    TAINT = "taint"
    SIZE = "size"  # it asks for more than the whole node has
    PASSING = "passing"  # cordoned, not ready, starting


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One obstacle between a pod and a node, in words that name label, taint or numbers."""

    obstacle: Obstacle
    text: str
    resource: str = ""


def gpu_resource(of: Mapping[str, str]) -> str | None:
    """The resource that KubeRay counts as GPUs: the first key, sorted, that ends with gpu or is a plain MIG slice."""
    return next((key for key in sorted(of) if key.endswith("gpu") or _MIG.search(key)), None)


def gpus(of: Mapping[str, str]) -> float:
    """How many GPUs these limits give."""
    key = gpu_resource(of)
    return quantity(of[key]) if key else 0.0


def limits(pod: Pod) -> Mapping[str, str]:
    """Limits of the pod's Ray container (always the first one, for KubeRay)."""
    main = next((item for item in pod.containers if not item.init), None)
    return main.limits if main else {}


def asked(pod: Pod) -> dict[str, float]:
    """What the scheduler counts for the pod: its containers together, or a larger init container alone."""
    running = [item for item in pod.containers if not item.init or item.sidecar]
    starting = [item for item in pod.containers if item.init and not item.sidecar]
    total: dict[str, float] = {}
    for item in running:
        for name, amount in _requests(item).items():
            total[name] = total.get(name, 0.0) + amount
    for item in starting:
        for name, amount in _requests(item).items():
            total[name] = max(total.get(name, 0.0), amount)
    return {name: amount for name, amount in total.items() if amount > 0}


def _requests(container: Container) -> dict[str, float]:
    """Requests, with limits in place of absent ones, as Kubernetes defaults them."""
    return {name: quantity(value) for name, value in {**container.limits, **container.requests}.items()}


def refusals(pod: Pod, node: KubeNode) -> tuple[Refusal, ...]:
    """Every obstacle between the pod and the node that does not depend on who else runs there."""
    return (*_label_refusals(pod, node), *_taint_refusals(pod, node), *_size_refusals(pod, node))


def _label_refusals(pod: Pod, node: KubeNode) -> Iterable[Refusal]:
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            has = f"has {key}={node.labels[key]}" if key in node.labels else f"has no label {key}"
            yield Refusal(obstacle=Obstacle.SELECTOR, text=f"{has}, the pod selects {key}={value}")
    terms = _required_terms(pod.affinity)
    if terms and not any(_matches(term, node) for term in terms):
        yield Refusal(obstacle=Obstacle.SELECTOR, text="does not match the pod's required node affinity")


def _required_terms(affinity: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: Sequence[Mapping[str, Any]] = required.get("nodeSelectorTerms") or ()
    return terms


def _matches(term: Mapping[str, Any], node: KubeNode) -> bool:
    labels, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not labels and not fields:
        return False
    names = {"metadata.name": node.name}
    return all(_holds(item, node.labels) for item in labels) and all(_holds(item, names) for item in fields)


_OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: value is not None and value.isdigit() and int(value) > int(wanted[0]),
    "Lt": lambda value, wanted: value is not None and value.isdigit() and int(value) < int(wanted[0]),
}


def _holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    check = _OPERATORS.get(expression.get("operator") or "")
    # An operator that we do not know must not turn into "can never fit".
    return check is None or check(values.get(expression.get("key") or ""), expression.get("values") or ())


def _taint_refusals(pod: Pod, node: KubeNode) -> Iterable[Refusal]:
    if node.unschedulable and not any(item.key == "node.kubernetes.io/unschedulable" for item in node.taints):
        yield Refusal(obstacle=Obstacle.PASSING, text="is cordoned")
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(_tolerates(it, taint) for it in pod.tolerations):
            passing = taint.key in _PASSING_TAINTS
            yield Refusal(
                obstacle=Obstacle.PASSING if passing else Obstacle.TAINT,
                text=f"has the taint {_taint(taint)}, which the pod does not tolerate",
            )
    if not node.ready and not any(item.key.startswith("node.kubernetes.io/") for item in node.taints):
        yield Refusal(obstacle=Obstacle.PASSING, text="is not Ready")


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    return toleration.key == taint.key and (toleration.operator == "Exists" or toleration.value == taint.value)


def _size_refusals(pod: Pod, node: KubeNode) -> Iterable[Refusal]:
    for name, amount in asked(pod).items():
        has = quantity(node.allocatable.get(name, "0"))
        if amount > has:
            text = f"has {shown(name, has)} allocatable, the pod asks for {shown(name, amount)}"
            yield Refusal(obstacle=Obstacle.SIZE, text=text, resource=name)


def places(pod: Pod, nodes: Iterable[KubeNode]) -> tuple[KubeNode, ...]:
    """Nodes that could take the pod if nobody else ran there, now or after they recover."""
    return tuple(node for node in nodes if all(item.obstacle is Obstacle.PASSING for item in refusals(pod, node)))


def modelled(pod: Pod) -> bool:
    """Whether nothing but selector, required node affinity, taints and sizes decides where the pod goes."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    between = ((pod.affinity.get(kind) or {}).get(required) for kind in ("podAffinity", "podAntiAffinity"))
    strict = (item for item in pod.spread if item.get("whenUnsatisfiable") != "ScheduleAnyway")
    return not any(between) and not any(strict) and not pod.claims


def holders(node: KubeNode, resource: str, pods: Iterable[Pod]) -> tuple[tuple[Pod, float], ...]:
    """Pods on the node that hold some of the resource, and how much each."""
    there = (pod for pod in pods if pod.node == node.name and pod.phase not in _ENDED)
    return tuple((pod, amount) for pod in there if (amount := asked(pod).get(resource, 0.0)) > 0)


def free(node: KubeNode, resource: str, pods: Iterable[Pod]) -> float:
    """What the node has left of the resource."""
    used = sum(amount for _, amount in holders(node, resource, pods))
    return quantity(node.allocatable.get(resource, "0")) - used


def copies(need: Amounts, node: KubeNode, pods: Sequence[Pod]) -> int:
    """How many pods that ask for ``need`` the node can take beside ``pods``."""
    counts = [int((free(node, name, pods) + 1e-9) // amount) for name, amount in need.items()]
    room = quantity(node.allocatable.get("pods", "110"))  # kubelet's default
    counts.append(int(room) - sum(1 for pod in pods if pod.node == node.name and pod.phase not in _ENDED))
    return max(min(counts), 0)


def all_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """The cluster's pods and the foreign ones."""
    return (*snapshot.pods, *snapshot.foreign_pods)


def expected_gpus(pod: Pod, snapshot: Snapshot) -> float:
    """GPUs that the pod's Ray node should offer: ``num-gpus`` where it was set, else the pod's limit."""
    return _offered(_start_params(pod, snapshot.cluster, snapshot.group(pod.group)), limits(pod))


def offered_gpus(group: Group) -> float:
    """GPUs that the Ray node of one more pod of this group would offer."""
    return _offered(group.start_params, group.limits)


def _offered(params: Mapping[str, str], of: Mapping[str, str]) -> float:
    """``num-gpus`` may also be a shell variable, which nobody but the container knows."""
    given = params.get("num-gpus", "")
    return float(given) if given.isdecimal() else gpus(of)


def _start_params(pod: Pod, cluster: Cluster | None, group: Group | None) -> Mapping[str, str]:
    if pod.role == "head":
        return cluster.head_start_params if cluster else {}
    return group.start_params if group else {}


def shown(resource: str, amount: float) -> str:
    """An amount as people read it: ``4 nvidia.com/gpu``, ``1.5 cpu``, ``3 GiB memory``."""
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        gib = amount / 2**30
        return f"{gib:.0f} GiB {resource}" if gib >= 100 else f"{gib:.3g} GiB {resource}"
    return f"{amount:g} {resource}"
