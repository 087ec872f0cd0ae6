"""Takes the facts that a finding quotes out of what was seen. A rule that then still speaks was guessing.

Every form of evidence has its counterpart here; one without is an error of the rule that quotes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rayflight.findings import Finding
from rayflight.snapshot.model import Condition, Pod, Snapshot, Termination
from tests.made_up import node

READY = Condition(type="Ready", status="True", since="2026-01-01T00:00:00.000Z")


@dataclass(frozen=True)
class Seen:
    """What ``diagnose`` is given."""

    now: Snapshot
    noted: dict[str, Any]

    @property
    def before(self) -> Snapshot | None:
        return self.noted.get("previous")


def without(seen: Seen, finding: Finding) -> Seen:
    """The same world without what the finding quotes."""
    for evidence in finding.evidence:
        for pattern, take in FORMS:
            match = re.fullmatch(pattern, evidence.object)
            if match:
                for groups in (match.groups(), *_alike(pattern, match.groups(), finding)):
                    seen = take(seen, *groups)
                break
        else:
            raise AssertionError(
                f"{finding.id} quotes {evidence.object!r}, which has no counterpart in tests/perturb.py"
            )
    return seen


def _alike(pattern: str, groups: tuple[str, ...], finding: Finding) -> list[tuple[str, ...]]:
    """A finding about several pods quotes one of them: the fact is taken from all."""
    pods = [name.removeprefix("pod/") for name in finding.objects if name.startswith("pod/")]
    if pattern.startswith("event") and groups[1] == "Pod":
        return [(groups[0], "Pod", name) for name in pods]
    if "pod " in pattern:
        return [(*groups[:-1], name) for name in pods]
    return []


def _now(seen: Seen, **changes: Any) -> Seen:
    return replace(seen, now=replace(seen.now, **changes))


def _noted(seen: Seen, **changes: Any) -> Seen:
    return replace(seen, noted={**seen.noted, **changes})


def _event(seen: Seen, reason: str, kind: str, name: str) -> Seen:
    kept = tuple(it for it in seen.now.events if (it.reason, it.kind, it.name) != (reason, kind, name))
    return _now(seen, events=kept)


def _pod(seen: Seen, name: str) -> Seen:
    """Nothing is wrong with the pod; one that was only there before never was."""
    if name not in {pod.name for pod in seen.now.pods}:
        return _noted(seen, previous=None)
    return _now(seen, pods=tuple(_sound(pod) if pod.name == name else pod for pod in seen.now.pods))


def _sound(pod: Pod) -> Pod:
    plain: dict[str, Any] = {
        "reason": "",
        "message": "",
        "deleting_since": None,
        "scheduling_gates": (),
        "annotations": {},
        "claims": (),
    }
    parts = tuple(replace(it, unhealthy_devices=()) for it in pod.containers if it.name != "istio-proxy")
    return replace(pod, phase="Running", node=pod.node or "cpu-1", conditions=(READY,), containers=parts, **plain)


def _container(seen: Seen, name: str, pod: str) -> Seen:
    return _now(seen, pods=tuple(_calm(it, name) if it.name == pod else it for it in seen.now.pods))


def _calm(pod: Pod, name: str) -> Pod:
    """An init container of that name has ended well, an ordinary one runs."""
    done = Termination(reason="Completed", exit_code=0)
    parts = (
        replace(
            it,
            state="terminated" if it.init else "running",
            terminated=done if it.init else None,
            last=None,
            reason="",
            message="",
            ready=True,
            restarts=0,
            started_at=None,
        )
        if it.name == name
        else it
        for it in pod.containers
    )
    return replace(pod, containers=tuple(parts))


def _cluster(seen: Seen, _name: str) -> Seen:
    found = seen.now.cluster or (seen.before.cluster if seen.before else None)
    if found is None:
        return _noted(seen, previous=None, session=None, submission=None)
    calm = replace(
        found,
        conditions=(),
        has_status=True,
        suspended=False,
        deleting_since=None,
        dropped=(),
        finalizers=(),
        state="",
        status_reason="",
        status_desired=None,
        groups=tuple({it.name: it for it in found.groups}.values()),
    )
    seen = _now(seen, cluster=calm)
    return _noted(seen, previous=None) if seen.before and seen.before.cluster != found else seen


def _group(seen: Seen, name: str) -> Seen:
    found = seen.now.cluster
    assert found is not None
    groups = tuple(replace(it, minimum=0) if it.name == name else it for it in found.groups)
    return _now(seen, cluster=replace(found, groups=groups))


def _node(seen: Seen, name: str) -> Seen:
    there = {it.name for it in seen.now.nodes}
    sound = tuple(
        replace(it, conditions=(READY,), taints=(), unschedulable=False, allocatable=it.capacity)
        if it.name == name
        else it
        for it in seen.now.nodes
    )
    return _now(seen, nodes=sound if name in there else (*sound, node(name)))


def _named(field: str) -> Callable[[Seen, str], Seen]:
    def take(seen: Seen, name: str) -> Seen:
        kept = tuple(it for it in getattr(seen.now, field) or () if it.name != name)
        return _now(seen, **{field: kept or None if field == "workloads" else kept})

    return take


def _ray(seen: Seen, **changes: Any) -> Seen:
    return _now(seen, ray=replace(seen.now.ray, **changes)) if seen.now.ray else seen


def _submission(seen: Seen, name: str) -> Seen:
    kept = tuple(it for it in seen.now.rayjobs or () if it.submission != name)
    seen = _now(seen, rayjobs=kept if seen.now.rayjobs is not None else None)
    return _ray(seen, jobs=tuple(it for it in seen.now.ray.jobs if it.id != name)) if seen.now.ray else seen


def _ray_node(seen: Seen, start: str) -> Seen:
    return _ray(seen, nodes=tuple(it for it in seen.now.ray.nodes if it.id[:8] != start))


def _log(seen: Seen, name: str) -> Seen:
    seen = _now(seen, logs={key: text for key, text in seen.now.logs.items() if key != name})
    seen = _now(seen, gaps=tuple(it for it in seen.now.gaps if it.source != name))
    if name.startswith("driver/") and seen.now.ray:
        jobs = tuple(replace(it, message="") if f"driver/{it.id}" == name else it for it in seen.now.ray.jobs)
        seen = _ray(seen, jobs=jobs)
    return _noted(seen, log_tail=())


def _gap(source: str) -> Callable[[Seen], Seen]:
    return lambda seen: _now(seen, gaps=tuple(it for it in seen.now.gaps if it.source != source))


def _session(seen: Seen) -> Seen:
    seen = _gap("ray")(seen)
    same = seen.now.ray.session if seen.now.ray else None
    before = seen.before
    if before and before.ray:
        seen = _noted(seen, previous=replace(before, ray=replace(before.ray, session=same or "")))
    return _noted(seen, session=same if seen.noted.get("session") else None)


def _claim(seen: Seen, name: str) -> Seen:
    bound = tuple(replace(it, phase="Bound") if it.name == name else it for it in seen.now.claims)
    return _now(seen, claims=bound)


def _stacks(seen: Seen, numbers: str) -> Seen:
    """Nobody looked at these ranks."""
    gone = {int(number) for number in numbers.split(", ")}
    assert seen.now.hang is not None
    kept = tuple(it for it in seen.now.hang.processes if it.rank not in gone)
    return _now(seen, hang=replace(seen.now.hang, processes=kept))


FORMS: tuple[tuple[str, Callable[..., Seen]], ...] = (
    (r"stacks? of ranks? (\d+(?:, \d+)*).*", _stacks),
    (r"event (\S+) on (\S+) (\S+)", _event),
    (r"(?:init )?container (\S+) of pod (\S+)", _container),
    (r"last message of container (\S+) of pod (\S+)", _container),
    (r"(?:head )?pod (\S+)", _pod),
    (r"further head pod (\S+)", _named("pods")),
    (r"RayCluster (\S+)", _cluster),
    (r"worker group (\S+)", _group),
    (r"node (\S+)", _node),
    (r"Workload (\S+)", _named("workloads")),
    (r"(?:LocalQueue|ClusterQueue) (\S+)", _named("queues")),
    (r"PodGroup (\S+)", _named("gangs")),
    (r"NetworkPolicy (\S+)", _named("network_policies")),
    (r"RayJob (\S+)", _named("rayjobs")),
    (r"Service (\S+)", _named("services")),
    (r"PersistentVolumeClaim (\S+)", _claim),
    (r"submission (\S+)", _submission),
    (r"Ray node (\S+) \(.*\)", _ray_node),
    (r"placement group \S+", lambda seen: _ray(seen, placement_groups=())),
    (r"Ray", lambda seen: _ray(seen, placement_groups=(), pending_demands=())),
    (r"Ray Train", lambda seen: seen),
    (r"log (\S+)", _log),
    (r"/api/version", _session),
    (r"/api/gcs_healthz", lambda seen: _ray(seen, gcs_healthy=True)),
    (r"/api/cluster_status", lambda seen: _ray(seen, pending_demands=())),
    (r"/api/jobs/", lambda seen: _now(seen, ray=None)),
    (r"rayclusters\.ray\.io", _gap("cluster")),
)
