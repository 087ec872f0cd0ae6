"""Level 3, the devices as the kubelet tells of them: what each node still offers, which device is ill. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayflight.findings import Check
from rayflight.snapshot import capacity
from rayflight.snapshot.model import Pod, Snapshot, quantity
from rayflight.verification.rows import Row, pod_named


def kubelet_rows(snapshot: Snapshot) -> Iterator[Check]:
    """One row per Kubernetes node with GPU pods of ours, and one per pod."""
    yield from _allocatable(snapshot)
    for pod in snapshot.workers():
        yield _healthy(pod, snapshot)


def _allocatable(snapshot: Snapshot) -> Iterator[Check]:
    """What each node offers still covers what our pods hold there, or its device plugin is gone or took some back."""
    holders: dict[tuple[str, str], list[Pod]] = {}
    for pod in snapshot.workers():
        resource = capacity.gpu_resource(capacity.limits(pod))
        if resource and pod.node:
            holders.setdefault((pod.node, resource), []).append(pod)
    nodes = {node.name: node for node in snapshot.nodes}
    for (name, resource), pods in holders.items():
        held = sum(capacity.gpus(capacity.limits(pod)) for pod in pods)
        row = Row(
            id="gpu-allocatable",
            level=3,
            subject=f"{resource} of node {name}",
            expected=f"at least {held:g} allocatable: the sum of our pods' limits there",
            next_step="look at the device plugin of that node: it is gone, or calls devices unhealthy",
            facts={"node": name, "pod": pods[0].name, "pods": [pod.name for pod in pods]},
        )
        gap = snapshot.gap("nodes")
        if gap:
            yield row.gap(gap) if gap.applies else row.not_applicable(gap.why)
        elif name not in nodes:
            yield row.unknown(f"node {name} is not in the list of nodes")
        else:
            offered = quantity(nodes[name].allocatable.get(resource, "0"))
            yield row.judged(offered >= held, f"{offered:g} allocatable, held by {', '.join(pod.name for pod in pods)}")


def _healthy(pod: Pod, snapshot: Snapshot) -> Check:
    """The kubelet's own word about each device that it gave to the pod."""
    row = Row(
        id="gpu-healthy",
        level=3,
        subject=pod_named(pod),
        expected="the kubelet calls each device of the pod healthy",
        next_step=f"cordon node {pod.node} and have the device checked; a new pod gets another device",
        facts={"pod": pod.name, "node": pod.node},
    )
    if not capacity.gpus(capacity.limits(pod)):
        return row.not_applicable("the pod asks for no GPU")
    if snapshot.backend != "kubernetes":
        return row.not_applicable("this backend has no kubelet")
    ill = [device for item in pod.containers for device in item.unhealthy_devices]
    well = [device for item in pod.containers for device in item.healthy_devices]
    if ill:
        return replace(row, facts={**row.facts, "gpu": ill[0]}).failed(f"Unhealthy: {', '.join(ill)}")
    if not well:
        return row.unknown("allocatedResourcesStatus is not told (ResourceHealthStatus: Kubernetes 1.36 and later)")
    return row.passed(f"Healthy: {', '.join(well)}")
