"""A Snapshot as flat facts that can be compared: what of which thing has which value. Pure.

Only what tells something stands here: a container that waits to be created, or a node that holds none of our pods, is
no fact. The thing itself (empty aspect) carries its main state, so that its birth and its end are one line each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from rayflight.labels import CONDEMNED, KEEP_UNTIL, READY_SESSION, TAKEN, VERIFIED_SESSION, digest
from rayflight.recorder.change import EVENT, GAP, KUBERNETES, RAY, RECORDER, Key
from rayflight.snapshot.model import (
    Cluster,
    Condition,
    Container,
    Event,
    Gap,
    KubeNode,
    Pod,
    Ray,
    Snapshot,
    Termination,
)
from rayflight.snapshot.surroundings import Workload

CLUSTER, POD, NODE, SERVICE, CLAIM = "RayCluster", "pod", "node", "service", "volume claim"
QUOTA, WORKLOAD, GANG, QUEUE = "quota", "Workload", "gang", "queue"
RAY_NODE, JOB, PLACEMENT, DEMAND, SESSION = "Ray node", "submission", "placement group", "demand", "session"
DASHBOARD, RELIST = "dashboard", "relist"
_QUIET_WAITS = ("ContainerCreating", "PodInitializing", "")
_QUIET_CONDITIONS = ("Initialized", "ContainersReady", "PodReadyToStartContainers")
_OVER = ("Failed", "Succeeded")
_NEVER_WAS = (("RayClusterSuspended", "False"), ("RayClusterSuspending", "False"))
_NOTED = {
    READY_SESSION: "ready in session",
    VERIFIED_SESSION: "verified in session",
    CONDEMNED: "condemned for",
    TAKEN: "taken by Kueue and used again",
    KEEP_UNTIL: "kept until",
}
_SILENCES = ("not asked for this time", "the head pod does not run")  # gaps of our own making, told by the pods
# Which kinds keep their last known facts while that source of a Snapshot cannot be read.
UNREAD = {
    "cluster": (CLUSTER,), "pods": (POD,), "events": (EVENT,), "nodes": (NODE,), "services": (SERVICE,),
    "quotas": (QUOTA,), "claims": (CLAIM,), "workloads": (WORKLOAD,), "gangs": (GANG,), "queues": (QUEUE,),
    "ray": (RAY_NODE, JOB, PLACEMENT, DEMAND, SESSION, "GCS"), "ray.nodes": (RAY_NODE,), "ray.jobs": (JOB,),
    "ray.placement_groups": (PLACEMENT,), "ray.demands": (DEMAND,),
}  # fmt: skip


class Fact(NamedTuple):
    """``value`` is compared; ``since`` is the source's own time, ``detail`` goes with it in words.

    ``name`` is told, not compared: events are known by a digest alone, so that a checkpoint of thousands stays small.
    """

    value: str
    since: str | None = None
    detail: str = ""
    name: str = ""
    born: str | None = ""  # when the thing itself began, where that is not ``since``; None where nobody knows


Facts = dict[Key, Fact]
_Pairs = Iterator[tuple[Key, Fact]]


def facts(seen: Snapshot, *, nodes: Collection[str] = (), claims: Collection[str] = ()) -> Facts:
    """Everything told by it. ``nodes`` and ``claims`` were in use before and are followed on."""
    used = {pod.node for pod in seen.pods} | set(nodes)
    mounted = {name for pod in seen.pods for name in pod.claims} | set(claims)
    found: Facts = dict(_cluster(seen))
    for pod in seen.pods:
        found.update(_pod(pod))
    for node in seen.nodes:
        found.update(_node(node) if node.name in used else ())
    found.update(_surroundings(seen, mounted))
    found.update(_event(item) for item in seen.events)
    found.update(_ray(seen.ray) if seen.ray else ())
    found.update(_gaps(seen))
    found.update(_relists(seen))
    return found


def unread(seen: Snapshot) -> frozenset[str]:
    """The kinds of which this Snapshot says nothing."""
    sources = {gap.source for gap in seen.gaps} | {gap.source for gap in (seen.ray.gaps if seen.ray else ())}
    sources |= {name for name in ("workloads", "gangs", "queues") if getattr(seen, name) is None}
    sources |= {"ray"} if seen.ray is None else set()
    kinds = {kind for source in sources for kind in UNREAD.get(source, ())}
    return frozenset(kinds | ({DASHBOARD} if not any(key.kind == DASHBOARD for key, _ in _gaps(seen)) else set()))


def _cluster(seen: Snapshot) -> _Pairs:
    cluster = seen.cluster
    if cluster is None:
        return
    going = cluster.deleting_since
    state = "being deleted" if going else "suspended" if cluster.suspended else "there"
    since = going or _suspended_or_not(cluster) or cluster.created_at
    yield (
        Key(KUBERNETES, CLUSTER, cluster.name),
        Fact(f"{state} (uid {cluster.uid})", since, born=going or cluster.created_at),
    )
    about = {
        "KubeRay's state": cluster.state,
        "reason": cluster.status_reason,
        "desired pods": str(cluster.desired_pods),
        **{word: cluster.annotations.get(name, "") for name, word in _NOTED.items()},
    }
    for aspect, value in about.items():
        if value:
            yield Key(KUBERNETES, CLUSTER, cluster.name, aspect), Fact(value)
    yield from _conditions(CLUSTER, cluster.name, cluster.conditions)


def _suspended_or_not(cluster: Cluster) -> str | None:
    """When a suspension last began or was over; KubeRay's state says so later."""
    told = [item.since for item in cluster.conditions if item.type in ("RayClusterSuspending", "RayClusterSuspended")]
    return max((since for since in told if since), default=None)


def _conditions(kind: str, name: str, conditions: Collection[Condition], quiet: Collection[str] = ()) -> _Pairs:
    for item in conditions:
        if item.type not in quiet and (item.type, item.status) not in _NEVER_WAS:
            said = " ".join(part for part in (item.status, item.reason) if part)
            yield Key(KUBERNETES, kind, name, item.type), Fact(said, item.since, item.message)


def _pod(pod: Pod) -> _Pairs:
    state = ": ".join(part for part in (pod.phase or "unknown", pod.reason, pod.message) if part)
    going = f"{state}, being deleted" if pod.deleting_since else state
    yield (
        Key(KUBERNETES, POD, pod.name),
        Fact(going, _since(pod) if pod.phase in _OVER else pod.deleting_since or _since(pod), born=pod.created_at),
    )
    if pod.node:
        scheduled = pod.condition("PodScheduled")
        yield Key(KUBERNETES, POD, pod.name, "node"), Fact(pod.node, scheduled.since if scheduled else None)
    yield from _conditions(POD, pod.name, [item for item in pod.conditions if _tells(item)], _QUIET_CONDITIONS)
    for item in pod.containers:
        yield from _container(pod.name, item)


def _since(pod: Pod) -> str | None:
    if pod.phase == "Pending":
        return pod.created_at
    if pod.phase == "Running":
        return max((item.started_at for item in pod.containers if item.started_at and not item.init), default=None)
    return max((item.terminated.finished_at or "" for item in pod.containers if item.terminated), default="") or None


def _tells(item: Condition) -> bool:
    """That it was scheduled is told by its node, that it is not ready yet by its containers."""
    return item.status == "True" if item.type == "Ready" else (item.type, item.status) != ("PodScheduled", "True")


def _container(pod: str, item: Container) -> _Pairs:
    aspect = f"container {item.name}"
    if item.terminated:
        yield Key(KUBERNETES, POD, pod, aspect), Fact(_ended(item.terminated), item.terminated.finished_at)
    elif item.state == "running":
        yield Key(KUBERNETES, POD, pod, aspect), Fact("running", item.started_at)
    elif item.reason not in _QUIET_WAITS:
        yield Key(KUBERNETES, POD, pod, aspect), Fact(f"waiting: {item.reason}", None, item.message)
    if item.restarts or item.last:
        last = f", before that {_ended(item.last)}" if item.last else ""
        yield (
            Key(KUBERNETES, POD, pod, f"{aspect}, restarts"),
            Fact(f"{item.restarts}{last}", item.last.finished_at if item.last else None),
        )
    if item.unhealthy_devices:
        yield Key(KUBERNETES, POD, pod, f"{aspect}, unhealthy devices"), Fact(", ".join(item.unhealthy_devices))


def _ended(how: Termination) -> str:
    message = f": {' '.join(how.message.split())}" if how.message else ""
    return f"ended with exit code {how.exit_code} {how.reason}{message}".rstrip()


def _node(node: KubeNode) -> _Pairs:
    state = ("Ready" if node.ready else "not Ready") + (", cordoned" if node.unschedulable else "")
    ready = next((item for item in node.conditions if item.type == "Ready"), None)
    why = f"{ready.reason}: {ready.message}" if ready and not node.ready else ""
    yield Key(KUBERNETES, NODE, node.name), Fact(state, ready.since if ready else None, why, born=None)
    for item in node.conditions:
        if item.type != "Ready" and item.status != "False":
            yield Key(KUBERNETES, NODE, node.name, item.type), Fact(f"{item.status} {item.reason}", item.since)
    for taint in node.taints:
        yield Key(KUBERNETES, NODE, node.name, f"taint {taint.key}"), Fact(f"{taint.value}:{taint.effect}")
    for name, amount in node.allocatable.items():
        if name.endswith("gpu") or "/mig-" in name:
            yield Key(KUBERNETES, NODE, node.name, f"allocatable {name}"), Fact(amount)


def _surroundings(seen: Snapshot, mounted: Collection[str]) -> _Pairs:
    for service in seen.services:
        ports = ", ".join(f"{name} {port}" for name, port in sorted(service.ports.items()))
        yield Key(KUBERNETES, SERVICE, service.name), Fact(f"ports {ports}", service.created_at)
    for claim in seen.claims:
        if claim.name in mounted:
            volume = f" to {claim.volume}" if claim.volume else ""
            yield Key(KUBERNETES, CLAIM, claim.name), Fact(f"{claim.phase}{volume}")
    for quota in seen.quotas:
        for name, hard in quota.hard.items():
            yield Key(KUBERNETES, QUOTA, quota.name, name), Fact(f"{quota.used.get(name, '0')} of {hard} used")
    for load in seen.workloads or ():
        if seen.cluster is None or load.owner in ("", seen.cluster.uid):
            state = "there" if load.active else "deactivated"
            yield Key(KUBERNETES, WORKLOAD, load.name), Fact(f"{state}, queue {load.queue}", load.created_at)
            yield from _conditions(WORKLOAD, load.name, load.conditions)
            yield from _standing(load, seen)
    for queue in seen.queues or ():
        yield from _conditions(QUEUE, f"{queue.kind} {queue.name}", [queue.active] if queue.active else [])
    for gang in seen.gangs or ():
        yield Key(KUBERNETES, GANG, gang.name), Fact(gang.phase or "there")


def _standing(load: Workload, seen: Snapshot) -> _Pairs:
    """Where it stands in its queue, and how often Kueue took it out."""
    for place in seen.queue_places or ():
        if place.workload == load.name:
            yield Key(KUBERNETES, WORKLOAD, load.name, "position"), Fact(str(place.in_cluster_queue + 1))
    for reason, count in load.evictions.items():
        yield Key(KUBERNETES, WORKLOAD, load.name, f"evictions, {reason}"), Fact(str(count))
    if load.requeue_at:
        yield Key(KUBERNETES, WORKLOAD, load.name, "comes back"), Fact(load.requeue_at)


def _event(item: Event) -> tuple[Key, Fact]:
    """Whatever it says for the same reason since the same moment is one event, which comes again (``count``)."""
    one = digest(item.kind, item.name, item.uid, item.reason, item.message, item.source, item.first_at, length=16)
    told = " ".join(part for part in ("" if item.type == "Normal" else item.type, item.reason) if part)
    return (
        Key(KUBERNETES, EVENT, "", one),
        Fact(str(item.count), item.last_at, f"{told}: {item.message}", f"{item.kind} {item.name}"),
    )


def _ray(side: Ray) -> _Pairs:
    yield Key(RAY, DASHBOARD, ""), Fact("answers")
    yield Key(RAY, SESSION, ""), Fact(side.session)
    if side.gcs_healthy is not None:
        yield Key(RAY, "GCS", ""), Fact("healthy" if side.gcs_healthy else "unhealthy")
    for node in side.nodes:
        since = node.started_at if node.state == "ALIVE" else node.ended_at
        name = f"{node.id[:8]} ({node.ip}{', head' if node.is_head else ''})"
        yield Key(RAY, RAY_NODE, name), Fact(node.state, since, node.why)
        if node.pod:  # known a moment later than the node
            yield Key(RAY, RAY_NODE, name, "pod"), Fact(node.pod)
    for job in side.jobs:
        code = "" if job.driver_exit_code is None else f", driver's exit code {job.driver_exit_code}"
        since = job.ended_at if job.status.ended else job.started_at
        yield Key(RAY, JOB, job.id), Fact(f"{job.status}{code}", since, job.message)
    for group in side.placement_groups:
        yield Key(RAY, PLACEMENT, group.id[:8]), Fact(f"{group.state}, {len(group.bundles)} bundles", group.since)
    if side.pending_demands:
        yield Key(RAY, DEMAND, ""), Fact("; ".join(side.pending_demands))


def _gaps(seen: Snapshot) -> _Pairs:
    if seen.ray is not None:
        yield Key(RAY, DASHBOARD, ""), Fact("answers")
    for gap in (*seen.gaps, *(seen.ray.gaps if seen.ray else ())):
        if not _counts(gap):
            continue
        if gap.source == "ray":
            yield Key(RAY, DASHBOARD, ""), Fact("does not answer", None, gap.why)
        else:
            yield Key(RECORDER, GAP, gap.source), Fact("unreadable", None, f"{gap.source} cannot be read: {gap.why}")


def _relists(seen: Snapshot) -> _Pairs:
    for source, times in seen.relists.items():
        told = f"the watch of {source} expired: what came and went before the new list is not known"
        yield Key(RECORDER, GAP, source, RELIST), Fact(str(times), None, told)


def _counts(gap: Gap) -> bool:
    return gap.applies and gap.source in UNREAD and not gap.why.startswith(_SILENCES)
