"""Jobs that are PENDING or RUNNING and can never finish: Ray waits without end for what cannot come.

Said only when the demand does not fit on all ALIVE Ray nodes together and no further node can come: every desired pod
is there, or those that are missing have no place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.diagnosis.placement import autoscaler, never, waiting_groups
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.capacity import offered_gpus
from rayflight.snapshot.model import Condition, Group, Job, PlacementGroup, RayNode
from rayflight.snapshot.readiness import map_pods

Amounts = Mapping[str, float]

_SETTLED = 2.0  # seconds: a group is PENDING for a moment also when all is well
_LONG = 60.0  # seconds; jobs that follow one another hand their Ray nodes over sooner
_REFUSED = 30.0  # seconds; the operator has tried some six times by then
_WAITING = ("PENDING", "RESCHEDULING")
_DEMAND = re.compile(
    r"(?P<need>\{[^}]*\})(?: \* (?P<times>\d+))?.*?: \d+\+ pending (?P<what>tasks/actors|placement groups)"
)


def _check(case: Case) -> Iterable[Finding]:
    job = case.job
    if job is None or job.status.ended or case.now.ray is None or not case.can_see("ray.nodes", "pods"):
        return
    nodes = case.now.ray.alive()
    group, demand = _stuck_group(case, job, nodes), _stuck_demand(case, job, nodes)
    if not group and not demand:
        yield from _behind_others(case, job, nodes)
        return
    why = _nothing_comes(case, group.bundles if group else (demand or {},))
    if not why:
        yield _waits(job, group, demand)
    elif group:
        yield _group_finding(case, job, group, nodes, why)
    elif demand:
        yield _demand_finding(job, demand, nodes, why)


def _waits(job: Job, group: PlacementGroup | None, demand: Amounts | None) -> Finding:
    """Pods may still come: Kubernetes knows whether they do."""
    need = _total(group.bundles) if group else demand or {}
    return Finding(
        id="job-waits-for-pods",
        title="The job waits for Ray nodes",
        layer=Layer.RAY,
        summary=f"Submission {job.id} is {job.status} and waits for {_shown(need)}, which no ALIVE Ray node can give",
        next_step="wait for the pods that are on their way",
        decision=Decision.WAIT,
        objects=(f"submission/{job.id}",),
        evidence=(Evidence(object="Ray", text=f"waits for {_shown(need)}", at=group.since if group else None),),
        since=group.since if group else None,
    )


def _behind_others(case: Case, job: Job, nodes: Sequence[RayNode]) -> Iterable[Finding]:
    """It would fit on these Ray nodes, but other jobs' placement groups hold what it needs: not now."""
    ray = case.now.ray
    if ray is None or not job.ray_job or not case.can_see("ray.placement_groups"):
        return
    mine = [it for it in ray.placement_groups if it.state in _WAITING and it.ray_job == job.ray_job]
    others = [it for it in ray.placement_groups if it.state == "CREATED" and it.ray_job not in ("", job.ray_job)]
    for group in mine:
        need, held = _total(group.bundles), _total([bundle for it in others for bundle in it.bundles])
        offer = _offer(nodes, need)
        short = [name for name in need if offer[name] >= need[name] > offer[name] - held.get(name, 0.0)]
        if short and case.lasts(group.since, _LONG):
            yield _held_by_jobs(case, job, group, others, (short[0], need[short[0]], offer[short[0]]))
            return


def _held_by_jobs(
    case: Case, job: Job, group: PlacementGroup, others: Sequence[PlacementGroup], lack: tuple[str, float, float]
) -> Finding:
    name, need, offer = lack
    holders = {it.ray_job: 0.0 for it in others}
    for it in others:
        holders[it.ray_job] += _total(it.bundles).get(name, 0.0)
    submissions = {it.ray_job: it.id for it in (case.now.ray.jobs if case.now.ray else ()) if it.ray_job}
    told = [
        f"{f'submission {submissions[who]}' if who in submissions else f'Ray job {who}'} ({amount:g})"
        for who, amount in holders.items()
        if amount
    ]
    return KINDS["job-waits-for-other-jobs"].finding(
        f"Submission {job.id} is {job.status} and waits for {need:g} {name}: the Ray nodes have {offer:g}, held by "
        f"{quoting.listed(told)}",
        objects=(f"submission/{job.id}",),
        evidence=(Evidence(object=f"placement group {group.id[:8]}", text=group.state, at=group.since),),
        since=group.since,
    )


def _nothing_comes(case: Case, bundles: Sequence[Amounts]) -> str:
    """Why no further Ray node will join, or none that these bundles need; nothing when one may."""
    if case.cluster is None or case.cluster.suspended:
        return ""
    missing = case.missing_pods()
    refused = next((it for it in case.cluster.conditions if it.type == "ReplicaFailure" and it.status == "True"), None)
    if missing:
        return _refused(case, missing, refused)
    hopeless = [group for group in waiting_groups(case) if never(group) and not autoscaler(group)[0]]
    homeless = {pod.name for group in hopeless for pod in group.pods}
    joined = map_pods(case.now).candidates
    coming = [pod.name for pod in case.pods if len(joined.get(pod.name, ())) != 1 and pod.name not in homeless]
    if coming or any(pod.deleting_since for pod in case.now.pods):
        return ""
    if homeless:
        return f"{quoting.listed(sorted(homeless))} can never be scheduled"
    room = [group for group in case.cluster.groups if group.desired < group.maximum] if case.cluster.autoscaling else []
    return _never_grown(case, room, bundles) if room else f"all {case.cluster.desired_pods} desired pods are there"


def _never_grown(case: Case, room: Sequence[Group], bundles: Sequence[Amounts]) -> str:
    """Why nothing that the autoscaler may add is enough, counted in GPUs; nothing when it may be."""
    wanted = [bundle.get("GPU", 0.0) for bundle in bundles]
    most = max(offered_gpus(group) for group in room)
    nodes = case.now.ray.alive() if case.now.ray else ()
    if max(wanted) > max([most, *(node.resources.get("GPU", 0.0) for node in nodes)]):
        groups = quoting.listed([f"{group.name} with {offered_gpus(group):g} GPU" for group in room])
        return f"the autoscaler may add pods of {groups} each"
    total = sum(node.resources.get("GPU", 0.0) for node in nodes)
    total += sum((group.maximum - group.desired) * offered_gpus(group) for group in room)
    return f"with all that the autoscaler may add there are {total:g} GPU" if sum(wanted) > total else ""


def _whole_cluster(case: Case) -> bool:
    """Whether all pods are there that this cluster may ever have: then the next one would be as small."""
    if case.cluster is None or case.missing_pods():
        return False
    joined = [nodes for nodes in map_pods(case.now).candidates.values() if len(nodes) == 1]
    full = all(group.desired >= group.maximum for group in case.cluster.groups)
    return full and len(joined) >= case.cluster.desired_pods


def _refused(case: Case, missing: int, refused: Condition | None) -> str:
    if refused is None or not case.lasts(refused.since, _REFUSED):
        return ""
    return f"{missing} pods are refused at admission ({quoting.clip(refused.message, 150)})"


def _stuck_group(case: Case, job: Job, nodes: Sequence[RayNode]) -> PlacementGroup | None:
    if case.now.ray is None or not case.can_see("ray.placement_groups"):
        return None
    return next(
        (
            group
            for group in case.now.ray.placement_groups
            if group.state in _WAITING
            and _may_be_its(case, job, group)
            and case.lasts(group.since, _SETTLED)
            and not _could_hold(nodes, group.bundles)
        ),
        None,
    )


def _may_be_its(case: Case, job: Job, group: PlacementGroup) -> bool:
    """Ray names a group's owner and a job's own number, mostly; where one is missing, only a job alone may own it."""
    if group.ray_job and job.ray_job:
        return group.ray_job == job.ray_job
    others = case.now.ray.jobs if case.now.ray else ()
    return all(other.status.ended for other in others if other.id != job.id)


def _could_hold(nodes: Sequence[RayNode], bundles: Sequence[Amounts]) -> bool:
    """A necessary condition only: each resource in sum, and each bundle somewhere."""
    each = all(any(_fits(bundle, node) for node in nodes) for bundle in bundles)
    names = {name for bundle in bundles for name, amount in bundle.items() if amount}
    enough = all(
        sum(_whole(node, name, bundles) for node in nodes) >= sum(bundle.get(name, 0.0) for bundle in bundles)
        for name in names
    )
    return each and enough


def _whole(node: RayNode, name: str, bundles: Sequence[Amounts]) -> float:
    """What of the node's resource these bundles can use: a bundle is never split over nodes."""
    has = node.resources.get(name, 0.0)
    sizes = {bundle.get(name, 0.0) for bundle in bundles if bundle.get(name)}
    return has // (size := sizes.pop()) * size if len(sizes) == 1 else has


def _fits(need: Amounts, node: RayNode) -> bool:
    return all(node.resources.get(name, 0.0) >= amount for name, amount in need.items())


def _stuck_demand(case: Case, job: Job, nodes: Sequence[RayNode]) -> Amounts | None:
    """A single task or actor that is larger than every node. Ray does not say whose it is: another's proves nothing."""
    if case.now.ray is None or not case.can_see("ray.demands", "ray.jobs"):
        return None
    if any(not other.status.ended for other in case.now.ray.jobs if other.id != job.id):
        return None
    for line in case.now.ray.pending_demands:
        found = _DEMAND.search(line)
        need = _amounts(found["need"]) if found and found["what"] == "tasks/actors" else {}
        if need and not any(_fits(need, node) for node in nodes):
            return need
    return None


def _amounts(text: str) -> Amounts:
    try:
        read = ast.literal_eval(text)
    except (SyntaxError, ValueError):  # Ray's text changed: it proves nothing any more
        return {}
    return {str(name): float(amount) for name, amount in read.items()} if isinstance(read, dict) else {}


def _group_finding(case: Case, job: Job, group: PlacementGroup, nodes: Sequence[RayNode], why: str) -> Finding:
    need = _total(group.bundles)
    return Finding(
        id="job-cannot-finish",
        title="The job waits for what can never come",
        layer=Layer.RAY,
        summary=(
            f"Submission {job.id} is {job.status} and will stay so for ever: its placement group waits for "
            f"{len(group.bundles)} bundles ({_shown(need)} in all), the {len(nodes)} ALIVE Ray nodes offer "
            f"{_shown(_offer(nodes, need))}, and no other comes: {why}"
        ),
        next_step="give the cluster what the job asks for, or ask for less",
        decision=Decision.FAIL if _whole_cluster(case) else Decision.RETRY_ELSEWHERE,
        objects=(f"submission/{job.id}",),
        evidence=(
            Evidence(
                object=f"placement group {group.id[:8]}",
                text=group.state,
                at=None if group.state == "RESCHEDULING" else group.since,
            ),
        ),
        # When it was made is not when it began to wait, where it once had a place.
        since=None if group.state == "RESCHEDULING" else group.since,
    )


def _demand_finding(job: Job, need: Amounts, nodes: Sequence[RayNode], why: str) -> Finding:
    entry = not job.ray_job
    what = "its entrypoint" if entry else "a task or actor"
    return Finding(
        id="entrypoint-exceeds-nodes" if entry else "demand-exceeds-nodes",
        title="The job asks for more than any Ray node has",
        layer=Layer.USER,
        summary=(
            f"Submission {job.id} is {job.status} and will stay so for ever: {what} asks for {_shown(need)} on one Ray "
            f"node, the {len(nodes)} ALIVE ones together offer {_shown(_offer(nodes, need))}, and no other comes: {why}"
        ),
        next_step="ask for no more than one pod has",
        decision=Decision.FAIL,
        objects=(f"submission/{job.id}",),
        evidence=(Evidence(object="/api/cluster_status", text=f"Pending Demands: {_shown(need)}"),),
        since=job.started_at,
    )


def _total(bundles: Sequence[Amounts]) -> Amounts:
    need: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            need[name] = need.get(name, 0.0) + amount
    return need


def _offer(nodes: Sequence[RayNode], need: Amounts) -> Amounts:
    return {name: sum(node.resources.get(name, 0.0) for node in nodes) for name in need}


def _shown(amounts: Amounts) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in amounts.items()) or "nothing"


RULES = (
    Rule(
        ids=(
            "job-cannot-finish",
            "job-waits-for-pods",
            "job-waits-for-other-jobs",
            "entrypoint-exceeds-nodes",
            "demand-exceeds-nodes",
        ),
        depth=Depth.JOB,
        check=_check,
        ends_jobs=True,
    ),
)
