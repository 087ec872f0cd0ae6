"""Level 1: the RayCluster is stored as asked, pods are Ready on nodes that match, one image, the head's ports. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rayflight.findings import Check
from rayflight.snapshot import capacity
from rayflight.snapshot.capacity import Obstacle
from rayflight.snapshot.model import Cluster, Container, Group, Pod, Snapshot, quantity
from rayflight.specs import ClusterSpec, WorkerGroup
from rayflight.verification.rows import Row, pod_named

_PORTS = ("dashboard", "gcs-server", "client")
_ONLY_KUBERNETES = "this backend has no Kubernetes objects"


def level1(spec: ClusterSpec, snapshot: Snapshot) -> tuple[Check, ...]:
    """One row per object that Kubernetes must have made."""
    return tuple(_rows(spec, snapshot))


def _rows(spec: ClusterSpec, snapshot: Snapshot) -> Iterator[Check]:
    if snapshot.backend != "kubernetes":
        yield Row(
            id="cluster-stored-as-asked", level=1, subject=f"cluster {snapshot.name}", expected="stored as asked"
        ).not_applicable(_ONLY_KUBERNETES)
        return
    yield _stored(spec, snapshot)
    yield _head_ready(snapshot)
    for group in spec.groups:
        yield _workers_ready(group, snapshot)
    for group in spec.groups:
        yield _nodes_match(group, snapshot)
        yield _spread(group, snapshot)
    yield from _images(spec, snapshot)
    yield _ports(snapshot)


def _stored(spec: ClusterSpec, snapshot: Snapshot) -> Check:
    asked = [
        f"{group.name}: {_range(spec, group)} pods with {group.gpus} {group.gpu_resource}" for group in spec.groups
    ]
    row = Row(
        id="cluster-stored-as-asked",
        level=1,
        subject=f"RayCluster {snapshot.namespace}/{snapshot.name}",
        expected="; ".join(asked) + (f"; auth {spec.auth}" if spec.auth != "disabled" else ""),
        next_step="compare the stored object with the spec: the installed CRD may drop fields that it does not know",
    )
    cluster, gap = snapshot.cluster, snapshot.gap("cluster")
    if cluster is None:
        return row.gap(gap) if gap else row.failed("it is not there")
    wrong = [*_differences(spec, cluster)]
    stored = "; ".join(f"{it.name}: {it.desired} pods with {capacity.gpus(it.limits):g} GPUs" for it in cluster.groups)
    return row.judged(
        not wrong, "; ".join(wrong) or stored, evidence=f"uid {cluster.uid}, generation {cluster.generation}"
    )


def _range(spec: ClusterSpec, group: WorkerGroup) -> str:
    least, most = group.least * group.hosts_per_replica, group.most * group.hosts_per_replica
    return f"{least} to {most}" if spec.autoscaler else str(group.pods)


def _differences(spec: ClusterSpec, cluster: Cluster) -> Iterator[str]:
    stored = {group.name: group for group in cluster.groups}
    for group in spec.groups:
        found = stored.get(group.name)
        if found is None:
            yield f"worker group {group.name} is not stored"
            continue
        if not _size_as_asked(spec, group, found):
            yield f"worker group {group.name} has {found.desired} pods, {_range(spec, group)} were asked for"
        gpus = quantity(found.limits.get(group.gpu_resource, "0"))
        if gpus != group.gpus:
            yield f"worker group {group.name} has {gpus:g} {group.gpu_resource} per pod, {group.gpus} were asked for"
    for field in cluster.dropped:
        yield f"{field} was asked for and is not stored: the installed CRD does not know it"
    for name in stored.keys() - {group.name for group in spec.groups}:
        yield f"worker group {name} was not asked for"
    if spec.auth == "token" and cluster.auth_mode != "token":
        yield "token authentication was asked for, and is not in the stored object: the cluster is open to everybody"


def _size_as_asked(spec: ClusterSpec, group: WorkerGroup, stored: Group) -> bool:
    if spec.autoscaler is None:
        return stored.desired == group.pods
    hosts = group.hosts_per_replica
    return group.least * hosts <= stored.desired <= group.most * hosts


def _head_ready(snapshot: Snapshot) -> Check:
    head = snapshot.head
    row = Row(
        id="head-pod-ready",
        level=1,
        subject=pod_named(head) if head else f"head pod of {snapshot.name}",
        expected="Ready",
        next_step="read the pod's events",
    )
    gap = snapshot.gap("pods")
    if gap:
        return row.gap(gap)
    return row.judged(head is not None and head.ready, _state(head) if head else "there is none")


def _state(pod: Pod) -> str:
    if pod.ready:
        return "Ready"
    waiting = next((it for it in pod.containers if it.state == "waiting" and it.reason), None)
    return f"{pod.phase}, not Ready" + (f": {waiting.name} {waiting.reason}" if waiting else "")


def _workers_ready(group: WorkerGroup, snapshot: Snapshot) -> Check:
    stored = snapshot.group(group.name)
    want = stored.desired if stored else group.pods
    pods = snapshot.workers(group.name)
    ready = [pod for pod in pods if pod.ready]
    where = ", ".join(f"{name}: {count}" for name, count in sorted(Counter(pod.node for pod in ready).items()))
    row = Row(
        id="worker-pods-ready",
        level=1,
        subject=f"worker pods of group {group.name}",
        expected=f"{want} Ready",
        next_step="read the events of the pods that are not Ready",
        facts={"pods": {pod.name: pod.node for pod in pods}},
    )
    gap = snapshot.gap("pods")
    if gap:
        return row.gap(gap)
    bad = "; ".join(f"{pod.name} {_state(pod)}" for pod in pods if not pod.ready)
    return row.judged(len(ready) == len(pods) == want, f"{len(ready)} Ready of {len(pods)} ({where})", evidence=bad)


def _nodes_match(group: WorkerGroup, snapshot: Snapshot) -> Check:
    pods = [pod for pod in snapshot.workers(group.name) if pod.node]
    nodes = {node.name: node for node in snapshot.nodes}
    wrong = [
        (pod, f"pod {pod.name}: node {pod.node} {refusal.text}")
        for pod in pods
        if pod.node in nodes
        for refusal in capacity.refusals(pod, nodes[pod.node])
        if refusal.obstacle in (Obstacle.SELECTOR, Obstacle.TAINT)
    ]
    row = Row(
        id="nodes-match",
        level=1,
        subject=f"nodes of group {group.name}",
        expected="labels match the selector, taints are tolerated",
        next_step="see who changed the node's labels or taints",
        facts={"pod": wrong[0][0].name, "node": wrong[0][0].node} if wrong else {},
    )
    gap = snapshot.gap("nodes") or snapshot.gap("pods")
    if gap:
        return row.gap(gap)
    unseen = sorted({pod.node for pod in pods} - nodes.keys())
    if unseen:
        return row.unknown(f"node {', '.join(unseen)} is not in the list of nodes")
    if not pods:
        return row.unknown("no pod of this group has a node")
    text = "; ".join(text for _, text in wrong) or ", ".join(sorted({pod.node for pod in pods}))
    return row.judged(not wrong, text)


def _spread(group: WorkerGroup, snapshot: Snapshot) -> Check:
    """Required: evenly over the nodes that could take them. Preferred: said, never a failure."""
    pods = [pod for pod in snapshot.workers(group.name) if pod.node]
    per_node = Counter(pod.node for pod in pods)
    observed = ", ".join(f"{name}: {count}" for name, count in sorted(per_node.items()))
    row = Row(
        id="worker-pods-spread",
        level=1,
        subject=f"worker pods of group {group.name}",
        expected=f"spread over nodes: {group.spread}",
        next_step="see the pods' topologySpreadConstraints",
    )
    if group.spread == "none" or group.topology_spread is not None or len(pods) < 2:
        return row.not_applicable("nothing to spread, or a spread of the user's own")
    gap = snapshot.gap("pods") or (snapshot.gap("nodes") if group.spread == "required" else None)
    if gap:
        return row.gap(gap)
    if group.spread == "preferred":
        return row.passed(observed)
    counts = [per_node.get(node.name, 0) for node in capacity.places(pods[0], snapshot.nodes)]
    return row.judged(bool(counts) and max(counts) - min(counts) <= 1, observed)


def _images(spec: ClusterSpec, snapshot: Snapshot) -> Iterator[Check]:
    """Pods that were asked to run one image must run one: its tag may have moved, or somebody changed a pod's image.

    Compared by what was asked for: a registry that a webhook puts in front of all names is no difference.
    """
    asked = {group.name: spec.image_of(group) for group in spec.groups}
    found: dict[str, dict[str, list[tuple[Pod, Container]]]] = {}
    for pod, container in _ray_containers(snapshot):
        wanted = spec.image_of(spec.head) if pod.role == "head" else asked.get(pod.group)
        found.setdefault(wanted or container.image, {}).setdefault(container.image_id, []).append((pod, container))
    for image, ids in found.items():
        fewest = min(ids.values(), key=len)[0][0]
        row = Row(
            id="same-image",
            level=1,
            subject=f"image {image}",
            expected="one image ID in all pods",
            next_step="name the image by its digest; see who changed the pod, or remove the stale one from the node",
            facts={"pod": fewest.name, "node": fewest.node} if len(ids) > 1 else {},
        )
        if "" in ids:
            yield row.unknown(f"pod {ids[''][0][0].name} shows no image ID yet")
        elif len(ids) == 1:
            yield row.passed(next(iter(ids)))
        else:
            yield row.failed("; ".join(f"{image_id}: {_running(held, image)}" for image_id, held in ids.items()))


def _running(held: Sequence[tuple[Pod, Container]], asked: str) -> str:
    return ", ".join(
        f"{pod_named(pod)}{f' ({container.image})' if container.image != asked else ''}" for pod, container in held
    )


def _ray_containers(snapshot: Snapshot) -> Iterator[tuple[Pod, Container]]:
    for pod in snapshot.pods:
        main = next((item for item in pod.containers if not item.init), None)
        if main is not None and pod.deleting_since is None:
            yield pod, main


def _ports(snapshot: Snapshot) -> Check:
    name = snapshot.cluster.head_service if snapshot.cluster else ""
    row = Row(
        id="head-service-ports",
        level=1,
        subject=f"service {name or 'of the head'}",
        expected=f"ports {', '.join(_PORTS)}",
        next_step="the service has exactly the ports that the head's container declares, if it declares any",
    )
    gap = snapshot.gap("services")
    if gap:
        return row.gap(gap)
    found = [item for item in snapshot.services if not name or item.name == name]
    service = next((item for item in found if "dashboard" in item.ports or item.name == name), None)
    if service is None:
        return row.failed("there is no head service")
    ports = ", ".join(f"{port} {number}" for port, number in service.ports.items())
    return row.judged(all(port in service.ports for port in _PORTS), ports)
