"""Kueue: why a cluster waits, or was taken away. Read from the Workload, the only object that says so.

A suspended RayCluster looks the same for every reason; its Workload's QuotaReserved, Evicted and the queues' Active
conditions tell them apart. One word decides between "later" (insufficient unused quota) and "never" (maximum capacity).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rayflight.diagnosis import line, quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.diagnosis.quota import Refusal, Why, refusals, why_never
from rayflight.findings import Decision, Evidence, Finding
from rayflight.snapshot.conditions import Condition
from rayflight.snapshot.model import Event
from rayflight.snapshot.surroundings import Queue, Workload

QUEUE = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"
_RELEASES = "kueue.x-k8s.io/resource-in-use"  # the finalizer that Kueue takes away at once while it works
_SILENCE = 30.0  # seconds; Kueue makes a Workload within one and releases a deleted one within one
_RETURN = 10.0  # seconds until the retry that then waits in the queue, at the place that the cluster kept
_TROUBLES = ("FailedScheduling", "Failed", "BackOff", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
_NAMED = re.compile(r"(?:LocalQueue|ClusterQueue) (?P<name>\S+) ")

# Why it can never fit as it is.
_NEVER = {
    Why.CAPACITY: "kueue-never-fits",
    Why.UNKNOWN: "kueue-resource-not-in-queue",
    Why.PLACE: "kueue-no-flavor-matches",
}
# What else QuotaReserved=False says, the first that matches decides.
_WAITS = (
    (r"LocalQueue \S+ doesn't exist", "kueue-local-queue-missing"),
    (r"ClusterQueue \S+ doesn't exist", "kueue-cluster-queue-missing"),
    (r"LocalQueue \S+ is inactive", "kueue-local-queue-held"),
    (r"namespace doesn't match ClusterQueue selector", "kueue-namespace-not-selected"),
    (r"The ClusterQueue is stopped", "kueue-cluster-queue-held"),
)
_INACTIVE = {
    "Stopped": "kueue-cluster-queue-held",
    "FlavorNotFound": "kueue-flavor-missing",
}


def _check(case: Case) -> Iterable[Finding]:
    load = _workload(case)
    if load is None:
        return
    evicted = load.condition("Evicted")
    if not load.active or (evicted and evicted.status == "True" and evicted.reason.startswith("Deactivated")):
        yield _deactivated(case, load)
    elif evicted and evicted.status == "True":
        yield _evicted(case, load, evicted)
    elif _waits(case):
        reserved = load.condition("QuotaReserved")
        if reserved and reserved.status == "False":
            yield _waiting(case, load, reserved)
        elif reserved and not load.has("Admitted"):
            yield from _checked(case, load)
    elif _lost_earlier(case, load):
        yield _preempted(case, load, load.condition("Preempted") or load.conditions[0])


def _workload(case: Case) -> Workload | None:
    """That of this cluster, or of the RayJob that makes it; one that is on its way out only if there is no other."""
    owners = {case.now.cluster.uid} if case.now.cluster else set()
    owners |= {item.uid for item in case.now.rayjobs or () if case.now.name in (item.cluster, item.name)}
    found = [item for item in case.now.workloads or () if item.owner and item.owner in owners]
    return min(found, key=lambda item: item.deleting_since is not None, default=None)


def _waits(case: Case) -> bool:
    """Held back as a whole, or some of its pods (an elastic job)."""
    suspended = case.cluster is not None and case.cluster.suspended
    return suspended or any("kueue" in gate for pod in case.pods for gate in pod.scheduling_gates)


def _objects(case: Case, load: Workload) -> tuple[str, ...]:
    gated = [pod for pod in case.pods if pod.scheduling_gates]
    return f"workload/{load.name}", f"raycluster/{case.now.name}", *quoting.objects(gated)


def _says(load: Workload, item: Condition) -> Evidence:
    return quoting.condition(f"Workload {load.name}", item)


def _waiting(case: Case, load: Workload, said: Condition) -> Finding:
    refused = refusals(said.message)
    name = _by_quota(case, load, refused) or _by_words(said.message)
    queue = _queue_named(case, said.message)
    quoted: tuple[Evidence, ...] = (_says(load, said),)
    if not name and queue and queue.active and queue.active.status == "False":
        name = _INACTIVE.get(queue.active.reason, "")
    if queue and queue.active and queue.active.status == "False":
        quoted = (*quoted, quoting.condition(f"{queue.kind} {queue.name}", queue.active))
    if not name:
        name = "kueue-cluster-queue-inactive" if "is inactive" in said.message else "queued-by-kueue"
    why = queue.active.message if queue and queue.active and queue.active.status == "False" else ""
    where = f"Kueue's queue {load.queue or 'without a name'}"
    never = KINDS[name].decisions == (Decision.FAIL,)
    waits = f"will never leave {where}" if never else f"waits in {where}{line.place(load, case.now)}"
    return KINDS[name].finding(
        f"RayCluster {case.now.name} {waits}: {quoting.clip(said.message, 300)}"
        f"{f' ({quoting.clip(why, 200)})' if why else ''}{line.numbers(refused, line.queue_of(load, case.now))}"
        f"{line.holders(load, case.now) if name == 'kueue-waits-for-quota' else ''}",
        objects=_objects(case, load),
        evidence=quoted,
        since=said.since,
    )


def _checked(case: Case, load: Workload) -> Iterable[Finding]:
    """Its quota is reserved, and something else must agree before it may run."""
    open_ones = [item for item in load.checks if item.state != "Ready"]
    refused = [item for item in open_ones if item.state == "Rejected"]
    told = (refused or open_ones)[:1]
    for item in told:
        said = f": {quoting.clip(item.message, 300)}" if item.message else ""
        yield KINDS["kueue-admission-check"].finding(
            f"RayCluster {case.now.name} has its quota in Kueue's queue {load.queue}, and waits for admission check "
            f"{item.name} ({item.state}){said}",
            objects=(*_objects(case, load), f"admissioncheck/{item.name}"),
            evidence=(
                Evidence(
                    object=f"Workload {load.name}",
                    text=f"check {item.name} {item.state}: {item.message}",
                    at=item.since,
                ),
            ),
            decision=Decision.FAIL if refused else Decision.WAIT,
        )


def _queue_named(case: Case, words: str) -> Queue | None:
    found = _NAMED.search(words)
    return next((item for item in case.now.queues or () if found and item.name == found["name"]), None)


def _by_quota(case: Case, load: Workload, refused: Sequence[Refusal]) -> str:
    if not refused:
        return ""
    queue = line.queue_of(load, case.now)
    never = why_never(refused, queue.quotas if queue else ())
    if never:
        return _NEVER[never]
    return "kueue-waits-for-quota" if any(item.why is Why.UNUSED for item in refused) else "queued-by-kueue"


def _by_words(message: str) -> str:
    return next((name for pattern, name in _WAITS if re.search(pattern, message)), "")


def _evicted(case: Case, load: Workload, evicted: Condition) -> Finding:
    if evicted.reason == "Preempted":
        return _preempted(case, load, evicted)
    if evicted.reason == "PodsReadyTimeout":
        again = f"; it comes back at {load.requeue_at}" if load.requeue_at else ""
        return KINDS["kueue-pods-ready-timeout"].finding(
            f"Kueue took RayCluster {case.now.name} out after {load.requeue_count or 1} time-out(s): "
            f"its pods were not all ready in time ({quoting.clip(evicted.message, 200)}){again}{_last_sign(case)}",
            objects=_objects(case, load),
            evidence=(_says(load, evicted),),
            decision=_decision(case),
            retry_after=_RETURN,
        )
    name = "kueue-queue-drained" if evicted.reason == "ClusterQueueStopped" else "kueue-evicted"
    return KINDS[name].finding(
        f"Kueue took RayCluster {case.now.name} out of the cluster: {evicted.reason}: "
        f"{quoting.clip(evicted.message, 300)}",
        objects=_objects(case, load),
        evidence=(_says(load, evicted),),
        decision=_decision(case),
        retry_after=_RETURN,
    )


def _last_sign(case: Case) -> str:
    """The cause went with the pod; its events outlive it."""
    told = case.pod_events(*_TROUBLES)
    return f"; last of pod {told[-1].name}: {told[-1].reason}: {quoting.clip(told[-1].message, 200)}" if told else ""


def _back_in_line(case: Case, load: Workload) -> str:
    reserved = load.condition("QuotaReserved")
    if reserved is None or reserved.status != "False":
        return ""
    return f". It is back in the queue{line.place(load, case.now)}: {quoting.clip(reserved.message, 200)}"


def _decision(case: Case) -> Decision:
    """Whatever ran on it is lost; an empty cluster simply waits for its turn again."""
    return Decision.RETRY_AFTER if case.flying else Decision.WAIT


def _preempted(case: Case, load: Workload, said: Condition) -> Finding:
    winner = line.preemptor(said.message, case.now)
    fault = " The training was not at fault; what it did since its last checkpoint is lost." if case.flying else ""
    return KINDS["kueue-preempted"].finding(
        f"Kueue preempted RayCluster {case.now.name}{f' for {winner}' if winner else ''} "
        f"({load.evictions.get('Preempted') or 1} time(s) so far): {quoting.clip(said.message, 300)}."
        f"{fault}{_back_in_line(case, load).removeprefix('.')}",
        objects=_objects(case, load),
        evidence=(_says(load, said),),
        decision=_decision(case),
        retry_after=_RETURN,
    )


def _lost_earlier(case: Case, load: Workload) -> bool:
    """Admitted again: history, unless what we noted ran before it."""
    past = load.condition("Preempted")
    noted, ray = case.noted_session, case.now.ray
    return (
        past is not None
        and past.message.startswith("Previously:")
        and noted is not None
        and ray is not None
        and ray.session != noted
    )


def _deactivated(case: Case, load: Workload) -> Finding:
    said = load.condition("Evicted")
    evidence = (_says(load, said),) if said else (Evidence(object=f"Workload {load.name}", text="spec.active: false"),)
    return KINDS["kueue-deactivated"].finding(
        f"Kueue does not try RayCluster {case.now.name} any more (spec.active is false): "
        f"{quoting.clip(said.message, 300) if said else 'somebody deactivated its Workload'}{_last_sign(case)}",
        objects=_objects(case, load),
        evidence=evidence,
    )


def _silent(case: Case) -> Iterable[Finding]:
    """No Workload, or one that nobody lets go: Kueue does not do its part."""
    cluster = case.cluster
    queue = cluster.labels.get(QUEUE) if cluster else None
    if cluster is None or queue is None or not cluster.suspended or case.now.workloads is None:
        return
    stuck = [item for item in case.now.workloads if item.deleting_since and _RELEASES in item.finalizers]
    if any(case.lasts(item.deleting_since, _SILENCE) for item in stuck):
        yield KINDS["kueue-down"].finding(
            f"Workload {stuck[0].name} was deleted at {stuck[0].deleting_since}, and Kueue does not let it go: Kueue "
            "does "
            f"not work, so RayCluster {cluster.name} waits although quota is free",
            objects=(f"workload/{stuck[0].name}", f"raycluster/{cluster.name}"),
            evidence=(
                Evidence(
                    object=f"Workload {stuck[0].name}",
                    text=f"deleted, finalizer {_RELEASES} is still there",
                    at=stuck[0].deleting_since,
                ),
            ),
            retry_after=120.0,
        )
    if _workload(case) is None and case.lasts(cluster.created_at, _SILENCE):
        priority = cluster.labels.get(_PRIORITY)
        named = f"; its priority class is {priority}: Kueue makes none where no such class exists" if priority else ""
        yield KINDS["kueue-no-workload"].finding(
            f"RayCluster {cluster.name} is suspended for queue {queue}, but has no Workload: nobody will ever admit "
            f"it{named}",
            objects=(f"raycluster/{cluster.name}",),
            evidence=(
                Evidence(
                    object=f"RayCluster {cluster.name}", text="suspended, no Workload of it", at=cluster.created_at
                ),
            ),
        )


def _by_hand(case: Case) -> Iterable[Finding]:
    if case.cluster is None or not case.cluster.suspended:
        return
    for words, name in (
        ("Not admitted by cluster queue", "kueue-suspends-again"),
        ("Missing Workload; unable to restore", "kueue-webhooks-missing"),
    ):
        told = [item for item in case.events("Stopped") if words in item.message]
        if told:
            yield _stopped(case, name, told[-1])


def _stopped(case: Case, name: str, told: Event) -> Finding:
    return KINDS[name].finding(
        f"Kueue suspended RayCluster {case.now.name} again at {told.last_at}: {quoting.clip(told.message, 200)}",
        objects=(f"raycluster/{case.now.name}",),
        evidence=(quoting.event(told),),
    )


RULES = (
    Rule(
        ids=(
            *dict.fromkeys([*_NEVER.values(), "kueue-waits-for-quota", *(name for _, name in _WAITS)]),
            *("kueue-flavor-missing", "kueue-cluster-queue-inactive", "queued-by-kueue", "kueue-preempted"),
            "kueue-admission-check",
            *("kueue-pods-ready-timeout", "kueue-queue-drained", "kueue-evicted", "kueue-deactivated"),
        ),
        depth=Depth.ADMISSION,
        check=_check,
        ends_jobs=True,
    ),
    Rule(ids=("kueue-down", "kueue-no-workload"), depth=Depth.ADMISSION, check=_silent),
    Rule(ids=("kueue-suspends-again", "kueue-webhooks-missing"), depth=Depth.ADMISSION, check=_by_hand),
)
