"""Whether a cluster is truly ready, and if not, what it waits for. Pure: one Snapshot in, one answer out.

Trusts neither ``.status.state`` nor RayClusterProvisioned nor Kubernetes' Ready: a cluster is ready when every desired
pod is mapped one to one to an ALIVE Ray node, all in one session, with its GPUs. That is truer, and some 6 s earlier.
``waiting_for`` holds no clock and no counter, so that it changes only when something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rayflight.snapshot import capacity
from rayflight.snapshot.model import Container, Pod, RayNode, Snapshot, quantity
from rayflight.snapshot.times import seconds_between

_SHOWN = 3  # more pods in one sentence are read by nobody
_LONGEST = 300  # characters of one message of Kubernetes
_SKEW = 5.0  # seconds that a Ray node's clock may be behind the API server's
_ORDINARY = ("", "PodInitializing", "ContainerCreating")  # a container that waits for its turn
_PULL_REASONS = ("ErrImagePull", "ImagePullBackOff")  # the kubelet flips between the two: one sentence for both


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """``mapped`` is pod name to Ray node id; ``session`` is Ray's session_name, None while the dashboard is silent."""

    ready: bool
    waiting_for: str = ""
    session: str | None = None
    mapped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMap:
    """Which ALIVE Ray nodes could be which pod, and which belong to no pod."""

    candidates: Mapping[str, tuple[RayNode, ...]]
    ghosts: tuple[RayNode, ...]


def readiness(snapshot: Snapshot, groups: Mapping[str, int] | None = None, *, uid: str | None = None) -> Readiness:
    """Judge the snapshot. ``groups`` overrides the desired pods of groups; ``uid`` is the cluster that we asked for."""
    session = snapshot.ray.session if snapshot.ray else None
    found = map_pods(snapshot)
    mapped = {pod: nodes[0].id for pod, nodes in found.candidates.items() if len(nodes) == 1}
    steps: Sequence[Callable[[], str]] = (
        lambda: _cluster_missing(snapshot, uid),
        lambda: _pods_leaving(snapshot),
        lambda: _pods_missing(snapshot, groups or {}),
        lambda: _pods_starting(snapshot),
        lambda: _ray_missing(snapshot),
        lambda: _unmapped(found),
        lambda: _gpus_missing(snapshot, found),
    )
    waiting_for = next((sentence for step in steps if (sentence := step())), "")
    return Readiness(ready=not waiting_for, waiting_for=waiting_for, session=session, mapped=mapped)


def map_pods(snapshot: Snapshot) -> PodMap:
    """Map pods to ALIVE Ray nodes: by the pod's name where Ray has it, else by IP."""
    alive = snapshot.ray.alive() if snapshot.ray else ()
    pods = [pod for pod in snapshot.pods if pod.deleting_since is None]
    candidates = {pod.name: tuple(node for node in alive if _is_pods(node, pod)) for pod in pods}
    taken = {node.id for nodes in candidates.values() for node in nodes}
    return PodMap(candidates=candidates, ghosts=tuple(node for node in alive if node.id not in taken))


def _is_pods(node: RayNode, pod: Pod) -> bool:
    if node.pod:
        return node.pod == pod.name
    age = seconds_between(pod.created_at, node.started_at)
    # A node older than the pod is what is left of an earlier pod with the same IP.
    return bool(pod.ip) and node.ip == pod.ip and (age is None or age > -_SKEW)


def _cluster_missing(snapshot: Snapshot, uid: str | None) -> str:
    cluster, name = snapshot.cluster, f"RayCluster {snapshot.namespace}/{snapshot.name}"
    if cluster is None:
        gap = snapshot.gap("cluster")
        return f"{name}: it cannot be read: {gap.why}" if gap else f"{name}: it is not there"
    if uid is not None and cluster.uid != uid:
        return f"{name}: another cluster of the same name is there (uid {cluster.uid}, not {uid})"
    if cluster.deleting_since:
        return f"{name}: it is being deleted since {cluster.deleting_since}"
    if cluster.suspended:
        queue = cluster.labels.get("kueue.x-k8s.io/queue-name")
        return f"{name}: it is suspended" + (f" and waits in Kueue's queue {queue}" if queue else "")
    if not cluster.has_status:
        return f"{name}: the KubeRay operator has not written a status yet"
    if cluster.observed_generation < cluster.generation:
        return f"{name}: the KubeRay operator has not seen generation {cluster.generation} yet"
    return ""


def _pods_missing(snapshot: Snapshot, groups: Mapping[str, int]) -> str:
    gap = snapshot.gap("pods")
    if gap:
        return f"the pods of {snapshot.name} cannot be read: {gap.why}"
    cluster = snapshot.cluster
    short = [] if snapshot.head else ["the head pod, which does not exist yet"]
    for group in cluster.groups if cluster else ():
        want, have = groups.get(group.name, group.desired), len(snapshot.workers(group.name))
        if have < want:
            short.append(f"{want - have} of {want} worker pods of group {group.name}, which do not exist yet")
    return f"{' and '.join(short)}{_refusal(snapshot)}" if short else ""


def _refusal(snapshot: Snapshot) -> str:
    conditions = snapshot.cluster.conditions if snapshot.cluster else ()
    failed = next((item for item in conditions if item.type == "ReplicaFailure" and item.status == "True"), None)
    # Every retry of the operator makes up a new pod name; without it the text stays the same.
    return f": {clip(failed.message.rpartition(' is forbidden: ')[2])}" if failed else ""


def _pods_leaving(snapshot: Snapshot) -> str:
    uid = snapshot.cluster.uid if snapshot.cluster else ""
    leaving = [
        f"pod {pod.name} is terminating since {pod.deleting_since}" for pod in snapshot.pods if pod.deleting_since
    ]
    # Right after a delete and create of one name, the operator takes dying pods of the old cluster for its own.
    foreign = [
        f"pod {pod.name} belongs to an earlier cluster of this name"
        for pod in snapshot.pods
        if pod.owner_uid and pod.owner_uid != uid and not pod.deleting_since
    ]
    return joined(leaving + foreign)


def _pods_starting(snapshot: Snapshot) -> str:
    # Who holds what each of hundreds of Pending pods waits for takes seconds to say, and three are shown.
    troubled = [pod for pod in snapshot.pods if _is_troubled(pod)]
    texts = [pod_trouble(pod, snapshot) if number < _SHOWN else pod.name for number, pod in enumerate(troubled)]
    return f"{len(troubled)} of {len(snapshot.pods)} pods: {joined(texts)}" if troubled else ""


def _ray_missing(snapshot: Snapshot) -> str:
    gap = snapshot.gap("ray") or snapshot.gap("ray.nodes")
    if snapshot.ray is None:
        return "the Ray dashboard" + (f": {clip(gap.why)}" if gap else "")
    return f"Ray's list of nodes: {clip(gap.why)}" if gap else ""


def _unmapped(found: PodMap) -> str:
    absent = [f"pod {name} runs, but is not ALIVE in Ray yet" for name, nodes in found.candidates.items() if not nodes]
    twice = [
        f"pod {name} has {len(nodes)} ALIVE Ray nodes, one of which must be dead"
        for name, nodes in found.candidates.items()
        if len(nodes) > 1
    ]
    ghosts = [f"Ray node {node.id[:8]} ({node.ip}) is ALIVE, but its pod is gone" for node in found.ghosts]
    waiting = len(absent) + len(twice)
    if not waiting:
        return joined(ghosts)
    return f"{waiting} of {len(found.candidates)} pods: {joined(absent + twice + ghosts)}"


def _gpus_missing(snapshot: Snapshot, found: PodMap) -> str:
    short = []
    for pod in snapshot.pods:
        want = capacity.expected_gpus(pod, snapshot)
        for node in found.candidates.get(pod.name, ()):
            has = node.resources.get("GPU", 0.0)
            if has < want:
                short.append(f"the Ray node of pod {pod.name} offers {has:g} of {want:g} GPUs")
    return joined(short)


def _is_troubled(pod: Pod) -> bool:
    return pod.phase != "Running" or not pod.node or next(_waiting(pod), None) is not None


def pod_trouble(pod: Pod, snapshot: Snapshot) -> str:
    """Why the pod does not run, in one clause; empty when it does."""
    if pod.phase in ("Failed", "Succeeded"):
        return (
            f"pod {pod.name} is {pod.phase}: {clip(' '.join(filter(None, (pod.reason, pod.message)))) or 'no reason'}"
        )
    if not pod.node:
        return f"pod {pod.name} is {_unscheduled(pod, snapshot)}"
    waiting = next(_waiting(pod), None)
    if waiting:
        return f"pod {pod.name} on {pod.node}: {waiting}"
    if pod.phase != "Running":
        return f"pod {pod.name} on {pod.node}: {_progress(pod, snapshot)}"
    return ""


def _unscheduled(pod: Pod, snapshot: Snapshot) -> str:
    if pod.scheduling_gates:
        return f"gated: {', '.join(pod.scheduling_gates)}"
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.status == "True":
        return f"Pending: {pod.scheduler} has not looked at it yet"
    return f"Pending: {clip(scheduled.message)}{_room(pod, snapshot)}"


def _room(pod: Pod, snapshot: Snapshot) -> str:
    """Who holds the GPUs of the nodes that could take the pod."""
    resource = capacity.gpu_resource(capacity.limits(pod))
    if resource is None:
        return ""
    pods = capacity.all_pods(snapshot)
    notes = []
    for node in capacity.places(pod, snapshot.nodes):
        held = capacity.holders(node, resource, pods)
        names = joined([f"{item.namespace}/{item.name}" for item, _ in held])
        used = f", {sum(amount for _, amount in held):g} used by {names}" if held else ""
        notes.append(f"{node.name} has {capacity.shown(resource, quantity(node.allocatable.get(resource, '0')))}{used}")
    return f" ({'; '.join(notes)})" if notes else ""


def _waiting(pod: Pod) -> Iterator[str]:
    """What a container says that cannot start; init containers first, since faults of image and secrets show there."""
    for item in sorted(pod.containers, key=lambda it: not it.init):
        if item.state == "waiting" and item.reason not in _ORDINARY:
            yield _container(item)
        elif item.terminated and item.terminated.exit_code:
            kind = "init container" if item.init else "container"
            yield f"{kind} {item.name} ended with exit code {item.terminated.exit_code}"


def _container(item: Container) -> str:
    kind = "init container" if item.init else "container"
    if item.reason in _PULL_REASONS:
        return f"{kind} {item.name} cannot pull image {item.image}"
    if item.reason == "CrashLoopBackOff":
        code = f" with exit code {item.last.exit_code}" if item.last else ""
        return f"{kind} {item.name} keeps ending{code}"
    return f"{kind} {item.name}: {item.reason}: {clip(item.message)}"


def _progress(pod: Pod, snapshot: Snapshot) -> str:
    running = next((item.name for item in pod.containers if item.init and item.state == "running"), None)
    if running:
        return f"init container {running} runs"
    about = [item for item in snapshot.events if item.uid == pod.uid and item.reason in ("Pulling", "Pulled")]
    pulling = bool(about) and about[-1].reason == "Pulling"
    return f"image still pulling: {clip(about[-1].message)}" if pulling else "containers are being created"


def joined(texts: Sequence[str]) -> str:
    """At most three texts, and how many more there are."""
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return "; ".join([*texts[:_SHOWN], *more])


def clip(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
