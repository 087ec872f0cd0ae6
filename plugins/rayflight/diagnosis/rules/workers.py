"""Worker pods that go while the cluster is in use: deleted, scaled down, or dead in Ray alone.

Ray 2.60 calls every SIGTERM a preemption; only Kubernetes knows what really happened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.model import Event, RayNode
from rayflight.states import JobStatus

# The wording of the operator's event tells a planned scale-down from the replacement of a dead pod (kuberay facts A4).
_GROUP = re.compile(r"suspended worker group (?P<name>\S+)")
_IDLE = re.compile(r"idle for [\d.]+ s")
_UNHEALTHY = "Pod status:"
_SCALED = re.compile(r"Deleted [Pp]od |scaling down|scale-down request|suspended worker group")
_DELETED = ("DeletedWorkerPod", "DeletedPod")
_WAS_THERE = "was there at"  # its time is the last one at which it was seen


def _decision(case: Case) -> Decision:
    """A job that has failed by it needs another run; one that still runs may go on with the replacement."""
    job = case.job
    return Decision.RETRY_ELSEWHERE if job and job.status is JobStatus.FAILED else Decision.WAIT


def _lost(case: Case) -> Iterable[Finding]:
    if case.cluster is None or not case.can_see("pods"):
        return
    signs = {name: said for name, said in _signs(case).items() if not _idle_in_ray(case, name)}
    scaled = [
        item for item in case.events(*_DELETED) if _SCALED.search(item.message) and _UNHEALTHY not in item.message
    ]
    planned = {name for name in signs if any(_speaks_of(case, name, item) for item in scaled)}
    if planned and _suspended_groups(case, planned, scaled):
        return
    if planned and not _idle_ones(case, planned, scaled):
        yield _scaled_down(case, sorted(planned), scaled, signs)
    lost = sorted(set(signs) - planned)
    if lost:
        yield _deleted(case, lost, signs)


def _speaks_of(case: Case, name: str, told: Event) -> bool:
    """The operator names the pod, or, for a suspended group, the group."""
    if name in told.message:
        return True
    group = _GROUP.search(told.message)
    return group is not None and name.startswith(f"{case.now.name}-{group['name']}-worker-")


def _suspended_groups(case: Case, planned: set[str], scaled: Sequence[Event]) -> bool:
    """A group that is suspended has no pods by intent: a fault only for a job that is not done."""
    told = [item for item in scaled if _GROUP.search(item.message)]
    gone = all(any(_speaks_of(case, name, item) for item in told) for name in planned)
    return gone and (case.job is None or case.job.status is JobStatus.SUCCEEDED)


def _idle_in_ray(case: Case, name: str) -> bool:
    """Ray's autoscaler ended its node for idleness, and says so itself."""
    if case.cluster is None or not case.cluster.autoscaling:
        return False
    known = (*case.now.pods, *(case.earlier.pods if case.earlier else ()))
    ips = {pod.ip for pod in known if pod.name == name and pod.ip}
    return any(it.ip in ips and _IDLE.search(it.why) for it in _dead_nodes(case))


def _idle_ones(case: Case, planned: set[str], told: list[Event]) -> bool:
    """The autoscaler takes Ray nodes that nothing uses: no fault, unless something waits for them now."""
    job, ray, cluster = case.job, case.now.ray, case.cluster
    if ray is None or cluster is None or not cluster.autoscaling or not case.can_see("ray.jobs", "ray.demands"):
        return False
    if job is not None and job.status is JobStatus.FAILED:
        return False
    chosen = all(any(name in it.message and _by_autoscaler(it) for it in told) for name in planned)
    waits = bool(ray.pending_demands) or any(it.state in ("PENDING", "RESCHEDULING") for it in ray.placement_groups)
    return chosen and not waits and case.missing_pods() == 0


def _signs(case: Case) -> dict[str, list[Evidence]]:
    """Worker pods that are going or gone, and what says so."""
    found: dict[str, list[Evidence]] = {}
    there = {pod.name: pod for pod in case.now.pods}
    head = f"{case.now.name}-head-"
    for item in case.pod_events("Killing"):
        if item.name not in there and not item.name.startswith(head):
            found.setdefault(item.name, []).append(quoting.event(item))
    for pod in case.now.pods:
        if pod.role == "worker" and pod.deleting_since:
            said = Evidence(object=f"pod {pod.name}", text="Terminating", at=pod.deleting_since)
            found.setdefault(pod.name, []).append(said)
    before = case.earlier
    for pod in before.workers() if before else ():
        if before and pod.name not in there:
            text = f"{_WAS_THERE} {before.taken_at}, is gone"
            said = Evidence(object=f"pod {pod.name}", text=text, at=before.taken_at)
            found.setdefault(pod.name, []).append(said)
    return found


def _deleted(case: Case, names: list[str], signs: dict[str, list[Evidence]]) -> Finding:
    evidence = tuple(item for name in names for item in signs[name])[:4]
    told = quoting.earliest(tuple(item for item in evidence if not item.text.startswith(_WAS_THERE)))
    dead = _dead_nodes(case)
    which = f"Worker pod {names[0]}" if len(names) == 1 else f"{len(names)} worker pods ({quoting.listed(names)})"
    since = quoting.earliest(evidence)
    said = f'; Ray says of its node: "{quoting.clip(dead[0].why, 120)}"' if dead and dead[0].why else ""
    back = _instead(case)
    return Finding(
        id="worker-pod-lost",
        title="A worker pod was deleted",
        layer=Layer.KUBERNETES,
        summary=(f"{which} of RayCluster {case.now.name} was deleted{_when(told, since)} and is gone{said}; {back}"),
        next_step="see who deleted it (drain, preemption, a person); with storage it goes on from its checkpoint",
        decision=_decision(case),
        objects=tuple(f"pod/{name}" for name in names),
        evidence=(*evidence, *(_quote(item) for item in dead[:1])),
        since=told or since,
    )


def _when(told: str | None, last_seen: str | None) -> str:
    if told:
        return f" at {told}"
    return f" after {last_seen}" if last_seen else ""


def _instead(case: Case) -> str:
    missing = case.missing_pods()
    if missing:
        return f"{missing} pods are missing"
    fewer = case.earlier is not None and len(case.now.workers()) < len(case.earlier.workers())
    return "the cluster asks for no other in its place" if fewer else "a replacement was made"


def _scaled_down(case: Case, names: list[str], told: list[Event], signs: dict[str, list[Evidence]]) -> Finding:
    evidence = (quoting.event(told[-1]), *(item for name in names for item in signs[name]))[:4]
    return Finding(
        id="workers-scaled-down",
        title="Worker pods were scaled down",
        layer=Layer.KUBERNETES,
        summary=(
            f"Worker pods {quoting.listed(names)} of RayCluster {case.now.name} were scaled down at "
            f"{told[-1].last_at} {_by_whom(told[-1])}: {quoting.clip(told[-1].message, 200)}"
        ),
        next_step="see who lowered replicas (a person, the autoscaler); set minReplicas to what the training needs",
        decision=Decision.RETRY_ELSEWHERE if _robbed(case) else _decision(case),
        objects=tuple(f"pod/{name}" for name in names),
        evidence=evidence,
        since=quoting.earliest(evidence),
    )


def _robbed(case: Case) -> bool:
    """A job lost a place that nobody gives back: without an autoscaler the number stays as low as it was set."""
    ray, cluster, job = case.now.ray, case.cluster, case.job
    lost = any(it.state == "RESCHEDULING" for it in (ray.placement_groups if ray else ()))
    return lost and job is not None and not job.status.ended and cluster is not None and not cluster.autoscaling


def _by_whom(told: Event) -> str:
    """The operator says ``Deleted pod`` of the autoscaler's choice, and ``Deleted Pod`` of a lowered number."""
    if "suspended worker group" in told.message:
        return "with their group, which was suspended"
    return "by the autoscaler, which chose them" if _by_autoscaler(told) else "because replicas were lowered, at random"


def _by_autoscaler(told: Event) -> bool:
    return told.message.startswith("Deleted pod ") or "autoscaler" in told.message


def _dead_nodes(case: Case) -> list[RayNode]:
    return [item for item in (case.now.ray.nodes if case.now.ray else ()) if item.state == "DEAD"]


def _quote(item: RayNode) -> Evidence:
    return Evidence(
        object=f"Ray node {item.id[:8]} ({item.ip})", text=f"DEAD: {quoting.clip(item.why)}", at=item.ended_at
    )


def _dead_in_ray(case: Case) -> Iterable[Finding]:
    """The Ray node died, its pod did not even restart a container: the fault is Ray's own."""
    for dead in _dead_nodes(case):
        pod = next(
            (it for it in case.pods if it.name == dead.pod or (not dead.pod and it.ip and it.ip == dead.ip)), None
        )
        main = next((item for item in pod.containers if not item.init), None) if pod else None
        said = pod.condition("Ready") if pod else None
        if said and said.status != "True" and not case.can_see("nodes"):
            continue  # its node may be the one that is ill
        if pod is None or main is None or main.state != "running" or not main.started_at or not dead.ended_at:
            continue
        if main.started_at > dead.ended_at or (pod.created_at or "") > dead.ended_at:
            continue
        if main.last and (dead.started_at or main.started_at) < main.started_at:
            continue  # it died with an earlier container; the GCS takes half a minute to see that
        yield Finding(
            id="ray-node-dead",
            title="A Ray node died in a living pod",
            layer=Layer.RAY,
            summary=(
                f"Ray node {dead.id[:8]} of pod {pod.name} died at {dead.ended_at}, while the pod ran on without a "
                f"restart: {quoting.clip(dead.why, 300) or 'Ray gives no reason'}"
            ),
            next_step="read raylet.out of that pod (memory, overload, lost heartbeats)",
            decision=_decision(case),
            objects=quoting.objects([pod]),
            evidence=(_quote(dead),),
            since=dead.ended_at,
        )


RULES = (
    Rule(ids=("worker-pod-lost", "workers-scaled-down"), depth=Depth.CONTAINER, check=_lost, past=True),
    Rule(ids=("ray-node-dead",), depth=Depth.CLUSTER, check=_dead_in_ray, past=True),
)
