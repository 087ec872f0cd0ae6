"""The head and the cluster itself lost: with the head's session every submission is gone.

Only a changed session_name proves it; pods may all be Ready for 20 s meanwhile, and the status keeps saying ``ready``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.model import Job, Pod, Snapshot
from rayflight.states import JobStatus

_OF_HEAD = re.compile(r"head Pod [^/\s]+/(?P<pod>[a-z0-9.-]+)")
_LEAVING = 60.0  # seconds; without finalizers a RayCluster goes at once


_ALL = "every submission, actor and driver log of its Ray session is lost"
_KEPT_APART = "every driver in it is lost: GCS fault tolerance keeps what Ray knows, not what ran in the pod"


def _same_session(case: Case) -> bool:
    return case.now.ray is not None and case.now.ray.session == case.noted_session


def _jobs(seen: Snapshot | None) -> tuple[Job, ...]:
    return seen.ray.jobs if seen and seen.ray else ()


def _pod_lost(case: Case) -> Iterable[Finding]:
    """Whatever the session says: while the old head still serves its grace, it is lost already."""
    if case.cluster is None:
        return
    leaving = next((pod for pod in case.now.pods if pod.role == "head" and pod.deleting_since), None)
    if leaving is None and _same_session(case) and not _took_the_driver(case):
        return
    evidence = _signs(case, leaving)
    if not evidence or (leaving is None and _flies_since(case, quoting.earliest(evidence))):
        return
    known = case.earlier.head if case.earlier else None
    name = leaving.name if leaving else known.name if known else _named(evidence[0])
    new = case.now.head
    then = f"pod {new.name} replaces it" if new and new.name != name else "nothing has replaced it yet"
    then = then if case.can_see("pods") else "what replaced it was not read"
    yield Finding(
        id="head-pod-lost",
        title="The head pod was deleted or replaced",
        layer=Layer.KUBERNETES,
        summary=(
            f"Head pod {name} of RayCluster {case.now.name} was deleted"
            f"{f' at {leaving.deleting_since}' if leaving and leaving.deleting_since else ''}; {then}. "
            f"With the head {_KEPT_APART if case.cluster.fault_tolerant else _ALL}"
        ),
        next_step="see who deleted it (drain, preemption, eviction, a person); train again on a new cluster",
        decision=Decision.RETRY_ELSEWHERE if case.flying else Decision.WAIT,
        objects=(f"pod/{name}",),
        evidence=evidence,
        since=quoting.earliest(evidence),
    )


def _took_the_driver(case: Case) -> bool:
    """With GCS fault tolerance the session outlives its head; a driver that ran in that pod does not."""
    before, job = case.earlier, case.job
    if before is None or before.head is None or job is None or job.status.ended or not case.can_see("pods"):
        return False
    heads = {node.id for node in before.ray.nodes if node.is_head} if before.ray else set()
    return job.driver_node_id in heads and before.head.uid not in {pod.uid for pod in case.now.pods}


def _flies_since(case: Case, lost: str | None) -> bool:
    """A job that began after it, and that Ray still knows: it runs on the head that came then."""
    job = case.job if case.noted_session is None else None
    return bool(lost and job and job.started_at and job.started_at > lost)


def _named(evidence: Evidence) -> str:
    """The pod that an event speaks of: its object, or what the operator's event about the cluster says."""
    told = _OF_HEAD.search(evidence.text)
    return told["pod"] if told else evidence.object.rpartition(" ")[2]


def _signs(case: Case, leaving: Pod | None) -> tuple[Evidence, ...]:
    found = [quoting.event(item) for item in case.events("DeletedHeadPod")]
    there = {pod.name for pod in case.now.pods if not pod.deleting_since}
    prefix = f"{case.now.name}-head-"
    killed = [item for item in case.pod_events("Killing") if item.name.startswith(prefix) and item.name not in there]
    found = [*(quoting.event(item) for item in killed), *found]
    if leaving is not None:
        text = f"pod {leaving.name} is Terminating"
        found.insert(0, Evidence(object=f"head pod {leaving.name}", text=text, at=leaving.deleting_since))
    before = case.earlier
    known = before.head if before else None
    if before and known and case.can_see("pods") and known.uid not in {pod.uid for pod in case.now.pods}:
        text = f"uid {known.uid} was there at {before.taken_at}, is gone"
        found.append(Evidence(object=f"head pod {known.name}", text=text, at=before.taken_at))
    return tuple(found)


def _restarted(case: Case) -> Iterable[Finding]:
    """The head's container ended and came back in the same pod: the session is as lost as with the pod."""
    head, noted = case.now.head, case.noted_session
    if case.cluster is None or head is None or noted is None or case.now.ray is None or _same_session(case):
        return
    main = next((item for item in head.containers if not item.init), None)
    if main is None or main.restarts < 1 or main.last is None:
        return
    evidence = (quoting.container(head, main),)
    yield Finding(
        id="head-container-restarted",
        title="The head's container restarted",
        layer=Layer.KUBERNETES,
        summary=(
            f"Container {main.name} of head pod {head.name} ended at {main.last.finished_at} with exit code "
            f"{main.last.exit_code} ({main.last.reason}) and was restarted in place; its Ray session is lost"
        ),
        next_step="read the container's previous log (GCS, memory); train again on a new cluster",
        decision=Decision.RETRY_ELSEWHERE if case.flying else Decision.WAIT,
        objects=quoting.objects([head]),
        evidence=evidence,
        since=main.last.finished_at,
    )


def _session(case: Case) -> Iterable[Finding]:
    noted = case.noted_session
    if noted is None or case.now.ray is None or not case.flying or _same_session(case):
        return
    lost = case.submission or next((job.id for job in _jobs(case.earlier)), None)
    what = f"submission {lost} is" if lost else "everything that ran there is"
    yield Finding(
        id="ray-session-changed",
        title="The Ray session changed: what ran on it is lost",
        layer=Layer.RAY,
        summary=f"Ray's session was {noted} and is now {case.now.ray.session}: {what} lost, not running",
        next_step="train again on a new cluster, from the last checkpoint",
        decision=Decision.RETRY_ELSEWHERE,
        objects=(f"submission/{lost}",) if lost else (),
        evidence=(Evidence(object="/api/version", text=f"session_name {case.now.ray.session}", at=case.now.taken_at),),
        since=case.now.taken_at,
    )


def _gone(case: Case) -> Iterable[Finding]:
    """Nobody but us deletes our cluster: that it goes is a cause."""
    found, name = case.now.cluster, f"RayCluster {case.now.namespace}/{case.now.name}"
    known = case.before.cluster if case.before else None  # of whatever uid
    uid = known.uid if known else None
    if any(it.cluster == case.now.name and it.deployment == "Complete" for it in case.now.rayjobs or ()):
        return  # its RayJob is done, and took it away
    if (
        case.noted_session is None
        and _jobs(case.now)
        and all(it.status is JobStatus.SUCCEEDED for it in _jobs(case.now))
    ):
        return  # its work is done, and somebody takes it away
    if found is None and case.can_see("cluster") and (known or case.flying):
        words, at = f"{name} is not there any more", case.now.taken_at
    elif found is not None and found.deleting_since:
        words, at = f"{name} is being deleted since {found.deleting_since}", found.deleting_since
    elif found is not None and uid and found.uid != uid:
        words, at = f"{name} was replaced by another of the same name", found.created_at or case.now.taken_at
    else:
        return
    yield Finding(
        id="cluster-gone",
        title="The cluster was deleted",
        layer=Layer.KUBERNETES,
        summary=words,
        next_step="see who deleted it; train again on a new cluster",
        decision=Decision.RETRY_ELSEWHERE,
        objects=(f"raycluster/{case.now.name}",),
        evidence=(Evidence(object=name, text=words, at=at),),
        since=at,
    )


def _held(case: Case) -> Iterable[Finding]:
    """Deletion was asked for long ago, and somebody must still do something before it happens."""
    found = case.now.cluster
    if (
        found is None
        or not found.deleting_since
        or not found.finalizers
        or not case.lasts(found.deleting_since, _LEAVING)
    ):
        return
    forced = (
        "; the operator (from 1.7 on) forces it after 300 s" if any("redis" in it for it in found.finalizers) else ""
    )
    told = [it for it in case.now.events if it.uid == found.uid and "FailedToCreateRedisCleanupJob" in it.reason]
    why = f": {quoting.clip(told[-1].message, 200)}" if told else ""
    yield KINDS["finalizer-holds-deletion"].finding(
        f"RayCluster {found.name} is being deleted since {found.deleting_since} and waits for finalizer "
        f"{quoting.listed(found.finalizers)}{why}{forced}",
        objects=(f"raycluster/{found.name}",),
        evidence=(
            Evidence(
                object=f"RayCluster {found.name}",
                text=f"finalizers {', '.join(found.finalizers)}",
                at=found.deleting_since,
            ),
            *(quoting.event(item) for item in told[-1:]),
        ),
        since=found.deleting_since,
    )


RULES = (
    Rule(ids=("finalizer-holds-deletion",), depth=Depth.NODE, check=_held, ends_jobs=True),
    Rule(ids=("cluster-gone",), depth=Depth.NODE, check=_gone, ends_jobs=True),
    Rule(ids=("head-pod-lost",), depth=Depth.CONTAINER, check=_pod_lost, ends_jobs=True, past=True),
    Rule(ids=("head-container-restarted",), depth=Depth.CONTAINER, check=_restarted, ends_jobs=True),
    Rule(ids=("ray-session-changed",), depth=Depth.CLUSTER, check=_session, ends_jobs=True),
)
