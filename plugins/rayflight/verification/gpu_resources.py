"""Level 3: what the pod was given, what Ray offers and what the container really sees are the same GPUs. Pure.

``num-gpus`` is a claim; only a rank inside the worker pod has seen the device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rayflight.findings import Check
from rayflight.snapshot import capacity
from rayflight.snapshot.model import Pod, RayNode, Snapshot
from rayflight.snapshot.readiness import map_pods
from rayflight.specs import ClusterSpec
from rayflight.specs.units import in_bytes
from rayflight.verification.devices import device_rows
from rayflight.verification.kubelet import kubelet_rows
from rayflight.verification.probed import Answers, Probed, devices_of, rank_named, uuids_of
from rayflight.verification.rows import Row, counted, gib, pod_named

_NO_ANSWER = "no rank of the probe answered from this pod"


def level3(spec: ClusterSpec, snapshot: Snapshot, probed: Probed) -> tuple[Check, ...]:
    """One row per worker pod and question, and those over the whole cluster."""
    return tuple(_rows(spec, snapshot, probed))


def _rows(spec: ClusterSpec, snapshot: Snapshot, probed: Probed) -> Iterator[Check]:
    mapped = map_pods(snapshot).candidates
    seen = {pod.name: probed.of_pod(pod.name, _node_id(mapped.get(pod.name, ()))) for pod in snapshot.workers()}
    for pod in snapshot.workers():
        yield _count(spec, pod, mapped.get(pod.name, ()), seen[pod.name], snapshot)
    yield from kubelet_rows(snapshot)
    for pod in snapshot.workers():
        yield _real(spec, pod, seen[pod.name])
        yield _assigned_once(pod, seen[pod.name])
    for group in spec.groups:
        yield _alike(
            spec, group.name, [rank for pod in snapshot.workers(group.name) for rank in seen[pod.name][:1]], snapshot
        )
    yield _unique(spec, snapshot, seen)
    yield from device_rows(spec, snapshot, probed)
    for pod in snapshot.workers():
        yield _shared_memory(spec, pod, mapped.get(pod.name, ()), seen[pod.name])


def _node_id(nodes: Sequence[RayNode]) -> str:
    return nodes[0].id if len(nodes) == 1 else ""


def _count(
    spec: ClusterSpec, pod: Pod, nodes: Sequence[RayNode], ranks: Sequence[Answers], snapshot: Snapshot
) -> Check:
    """Pod limit = Ray node resource = devices in the container."""
    resource = capacity.gpu_resource(capacity.limits(pod))
    limit = capacity.gpus(capacity.limits(pod))
    row = Row(
        id="gpu-count",
        level=3,
        subject=pod_named(pod),
        expected=f"{counted(limit, 'GPU')}: pod limit = Ray resource = devices in the container",
        next_step="the device plugin or the container runtime gave other devices than the pod's limit",
        facts={"pod": pod.name, "node": pod.node},
    )
    if resource is None:
        return row.not_applicable("the pod asks for no GPU")
    if len(nodes) != 1:
        return row.unknown("the pod is not mapped to one Ray node")
    if _only_names(spec, snapshot):
        return _named_only(row, limit, nodes[0])
    if not ranks or ranks[0].get("devices") is None:
        return row.unknown(_silence(ranks))
    in_ray = nodes[0].resources.get("GPU", 0.0)
    uuids = uuids_of(ranks[0])
    devices, row = len(uuids), replace(row, facts={**row.facts, "gpus": uuids})
    text = f"pod limit {limit:g}, Ray {in_ray:g}, container {devices}"
    return row.judged(limit == in_ray == devices, text, evidence=str(ranks[0].get("devices_error") or ""))


def _only_names(spec: ClusterSpec, snapshot: Snapshot) -> bool:
    """Simulated GPUs of a local cluster are names in Ray: there is nothing that a process could see."""
    return spec.simulated and snapshot.backend == "local"


def _named_only(row: Row, limit: float, node: RayNode) -> Check:
    in_ray = node.resources.get("GPU", 0.0)
    if in_ray != limit:
        return row.failed(f"SIMULATED: the shape asks for {limit:g}, Ray offers {in_ray:g}")
    return row.not_applicable(f"SIMULATED: {counted(in_ray, 'GPU')} in Ray, no device to be seen")


def _silence(ranks: Sequence[Answers]) -> str:
    return str(ranks[0].get("error") or _NO_ANSWER) if ranks else _NO_ANSWER


def _real(spec: ClusterSpec, pod: Pod, ranks: Sequence[Answers]) -> Check:
    """Simulated GPUs are shown as such wherever GPUs are shown, and never taken for real ones."""
    row = Row(
        id="gpu-real",
        level=3,
        subject=pod_named(pod),
        expected="simulated GPUs, as the spec says" if spec.simulated else "real devices",
        next_step="set `simulated: true` in the spec where GPUs are simulated; never do so for a real pool",
        facts={"pod": pod.name, "node": pod.node},
    )
    if not capacity.gpus(capacity.limits(pod)):
        return row.not_applicable("the pod asks for no GPU")
    if not ranks or ranks[0].get("simulated") is None:
        return row.unknown(_silence(ranks))
    simulated = bool(ranks[0]["simulated"])
    named = ", ".join(f"{name} x {count}" for name, count in Counter(_kind(it) for it in devices_of(ranks[0])).items())
    if simulated and spec.simulated:
        return row.not_applicable(f"SIMULATED: {named or 'no devices'}")
    return row.judged(simulated is spec.simulated, f"{'SIMULATED: ' if simulated else ''}{named or 'no devices'}")


def _kind(device: Answers) -> str:
    memory = f" {device['memory_mib']} MiB" if device.get("memory_mib") else ""
    return f"{device.get('name') or 'unnamed device'}{memory}, driver {device.get('driver') or 'unknown'}"


def _assigned_once(pod: Pod, ranks: Sequence[Answers]) -> Check:
    row = Row(
        id="gpu-assigned-once",
        level=3,
        subject=pod_named(pod),
        expected="each rank has a GPU of its own",
        next_step="two ranks would train on one GPU: see num-gpus and CUDA_VISIBLE_DEVICES",
        facts={"pod": pod.name, "node": pod.node},
    )
    if not capacity.gpus(capacity.limits(pod)):
        return row.not_applicable("the pod asks for no GPU")
    if not ranks or any(rank.get("gpu_ids") is None for rank in ranks):
        return row.unknown(_silence([rank for rank in ranks if rank.get("gpu_ids") is None]))
    given = {rank_named(rank): [str(item) for item in rank["gpu_ids"]] for rank in ranks}
    every = [item for ids in given.values() for item in ids]
    right = len(set(every)) == len(every) and all(given.values())
    return row.judged(right, "; ".join(f"{name}: GPU {', '.join(ids) or 'none'}" for name, ids in given.items()))


def _alike(spec: ClusterSpec, group: str, ranks: Sequence[Answers], snapshot: Snapshot) -> Check:
    """Ranks of one group go at the pace of the slowest: product, memory and driver should be one."""
    row = Row(
        id="gpu-alike",
        level=3,
        subject=f"GPUs of group {group}",
        expected="one product, memory size and driver",
        next_step="select one GPU product with the group's node selector",
    )
    kinds = Counter(_kind(device) for rank in ranks for device in devices_of(rank))
    if not any(capacity.gpus(capacity.limits(pod)) for pod in snapshot.workers(group)):
        return row.not_applicable("the group asks for no GPU")
    if _only_names(spec, snapshot):
        return row.not_applicable("SIMULATED: no devices")
    if not kinds:
        return row.unknown("no rank listed a device")
    return row.judged(len(kinds) == 1, "; ".join(f"{count} x {kind}" for kind, count in kinds.items()))


def _unique(spec: ClusterSpec, snapshot: Snapshot, seen: dict[str, tuple[Answers, ...]]) -> Check:
    """A container that sees all of its node's devices, or two pods on one device, shows here."""
    holders: dict[str, list[str]] = {}
    for pod, ranks in seen.items():
        for uuid in uuids_of(ranks[0]) if ranks else ():
            holders.setdefault(uuid, []).append(pod)
    nodes = {pod.name: pod.node for pod in snapshot.workers()}
    shared = next(((uuid, pods[-1]) for uuid, pods in holders.items() if len(pods) > 1), None)
    row = Row(
        id="gpu-uuids-unique",
        level=3,
        subject=f"GPUs of {snapshot.name}",
        expected="every device in one pod only",
        next_step="the container runtime shows devices that the pod was not given (NVIDIA_VISIBLE_DEVICES=all)",
        facts={"gpu": shared[0], "pod": shared[1], "node": nodes[shared[1]]} if shared else {},
    )
    if not any(capacity.gpus(capacity.limits(pod)) for pod in snapshot.workers()):
        return row.not_applicable("no pod asks for a GPU")
    if _only_names(spec, snapshot):
        return row.not_applicable("SIMULATED: no devices")
    if not holders:
        return row.unknown("no rank listed a device")
    twice = [
        f"{uuid} in {' and '.join(f'{pod} on node {nodes[pod]}' for pod in pods)}"
        for uuid, pods in holders.items()
        if len(pods) > 1
    ]
    return row.judged(not twice, "; ".join(twice) or f"{len(holders)} devices, each in one pod")


def _shared_memory(spec: ClusterSpec, pod: Pod, nodes: Sequence[RayNode], ranks: Sequence[Answers]) -> Check:
    """Ray's object store lives in /dev/shm, and its pages count against the container's memory limit.

    The kubelet cuts a mount to the limit: a shape that asks for more shared memory than that shows in the shape only.
    """
    group = next((item for item in spec.groups if item.name == pod.group), None)
    asked = in_bytes(group.shm_size) if group and group.shm_size else None
    heap = float(group.ray_start_params.get("memory", 0)) if group else 0.0
    row = Row(
        id="shared-memory",
        level=3,
        subject=pod_named(pod),
        expected="room for Ray's object store in /dev/shm; shared memory, store and stated heap below the memory limit",
        next_step="set shm_size, or a smaller object-store-memory, or more memory",
        facts={"pod": pod.name, "node": pod.node},
    )
    if not ranks or ranks[0].get("shm_bytes") is None:
        return row.unknown(_silence(ranks))
    shm, limit = float(ranks[0]["shm_bytes"]), ranks[0].get("memory_limit_bytes")
    store = nodes[0].resources.get("object_store_memory") if len(nodes) == 1 else None
    text = (
        f"shared memory {gib(shm)}{f' (asked for: {gib(asked)})' if asked else ''}, "
        f"object store {gib(store) if store else 'unknown'}{f', stated heap {gib(heap)}' if heap else ''}, "
        f"memory limit {gib(float(limit)) if limit else 'none'}"
    )
    if store is None:
        return row.unknown(f"Ray does not say the size of its object store ({text})")
    below = not limit or (store + heap < float(limit) and (asked or 0) < float(limit))
    return row.judged(shm >= store and below, text)
