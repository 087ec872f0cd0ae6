"""KubeRay's RayJob, where one made the cluster: its own states lag, lie, and sometimes end nothing."""

from __future__ import annotations

from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Evidence, Finding
from rayflight.snapshot.surroundings import RayJob
from rayflight.snapshot.times import seconds_between

_LEFT = 60.0  # seconds after its end in which a cluster goes, where somebody takes it away
_DEADLINES = ("DeadlineExceeded", "PreRunningDeadlineExceeded")


def _check(case: Case) -> Iterable[Finding]:
    for item in case.now.rayjobs or ():
        if case.now.name in (item.cluster, item.name):
            yield from _invalid(case, item)
            yield from _submission(case, item)
            yield from _stream(item)
            yield from _deadline(item)


def _evidence(item: RayJob) -> Evidence:
    words = (item.deployment, item.reason, item.status, item.message)
    return Evidence(object=f"RayJob {item.name}", text=quoting.clip(" ".join(filter(None, words))), at=item.ended_at)


def _objects(item: RayJob) -> tuple[str, ...]:
    return f"rayjob/{item.name}", *((f"raycluster/{item.cluster}",) if item.cluster else ())


def _invalid(case: Case, item: RayJob) -> Iterable[Finding]:
    if item.deployment == "ValidationFailed":
        held = [load.name for load in case.now.workloads or () if load.owner == item.uid and load.has("Admitted")]
        quota = f"; its quota is still held by Workload {held[0]}: delete the RayJob now" if held else ""
        yield KINDS["rayjob-validation-failed"].finding(
            f"RayJob {item.name} will never run: "
            f"{quoting.clip(item.message, 300) or 'the operator refuses its spec'}{quota}",
            objects=_objects(item),
            evidence=(_evidence(item),),
            since=item.created_at,
        )


def _submission(case: Case, item: RayJob) -> Iterable[Finding]:
    if item.deployment == "Failed" and item.reason == "SubmissionFailed":
        head = case.now.head
        ready = head.condition("Ready") if head else None
        ended = item.ended_at or item.started_at or item.created_at
        late = seconds_between(ended, ready.since) if ready and ready.status == "True" else None
        then = (
            f"; the head became ready {late:.0f} s after that, at {ready.since}" if ready and late and late > 0 else ""
        )
        yield KINDS["rayjob-submission-failed"].finding(
            f"RayJob {item.name} gave up to submit: {quoting.clip(item.message, 300) or item.reason}{then}",
            objects=_objects(item),
            evidence=(_evidence(item),),
            retry_after=60.0,
        )


def _stream(item: RayJob) -> Iterable[Finding]:
    if "submitter finished" in item.message and "did not reach terminal state" in item.message:
        yield KINDS["rayjob-log-stream-broke"].finding(
            f"RayJob {item.name} was ended while its job ran: {quoting.clip(item.message, 300)}. "
            "The stream of the log broke, which is not the end of a job",
            objects=_objects(item),
            evidence=(_evidence(item),),
        )


def _deadline(item: RayJob) -> Iterable[Finding]:
    if item.deployment == "Failed" and item.reason in _DEADLINES:
        yield KINDS["rayjob-deadline-exceeded"].finding(
            f"RayJob {item.name} was ended by its own deadline ({item.reason}): {quoting.clip(item.message, 300)}",
            objects=_objects(item),
            evidence=(_evidence(item),),
        )


def _left_behind(case: Case) -> Iterable[Finding]:
    """Whatever ended it: the cluster stays."""
    mine = [item for item in case.now.rayjobs or () if case.now.name in (item.cluster, item.name)]
    for item in mine:
        yield from _left(case, item)


def _left(case: Case, item: RayJob) -> Iterable[Finding]:
    ended = item.ended_at or item.started_at or item.created_at
    if item.deployment == "Failed" and not item.status and case.cluster and case.lasts(ended, _LEFT):
        yield KINDS["rayjob-failed-cluster-left"].finding(
            f"RayJob {item.name} failed without a job status, and RayCluster {case.now.name} is still there: "
            "deletion rules that look at the job's status never match",
            objects=_objects(item),
            evidence=(_evidence(item),),
            since=ended,
        )


def _resubmitted(case: Case) -> Iterable[Finding]:
    """HTTPMode: the operator submits again when the new head answers 404, and says nothing."""
    lost = [item for item in case.events("DeletedHeadPod") if item.last_at]
    for item in case.now.rayjobs or ():
        mine = case.now.name in (item.cluster, item.name) and item.mode == "HTTPMode"
        job = next((it for it in (case.now.ray.jobs if case.now.ray else ()) if it.id == item.submission), None)
        if mine and lost and job and (job.started_at or "") > (lost[-1].last_at or ""):
            yield KINDS["rayjob-resubmitted"].finding(
                f"RayJob {item.name} was silently submitted again at {job.started_at}, after its head was lost at "
                f"{lost[-1].last_at}: the training began anew",
                objects=(f"submission/{job.id}", f"rayjob/{item.name}"),
                evidence=(
                    quoting.event(lost[-1]),
                    Evidence(object=f"submission {job.id}", text="starts", at=job.started_at),
                ),
            )


def _lost(case: Case) -> Iterable[Finding]:
    """It says RUNNING, and Ray knows no such job: it went with an earlier head."""
    ray = case.now.ray
    if ray is None or not case.can_see("ray.jobs"):
        return
    for item in case.now.rayjobs or ():
        known = {job.id for job in ray.jobs}
        if case.now.name in (item.cluster, item.name) and item.status == "RUNNING" and item.submission not in known:
            yield KINDS["rayjob-lost-with-head"].finding(
                f"RayJob {item.name} says RUNNING, but Ray (session {ray.session}) knows no submission "
                f"{item.submission}: "
                "the job was lost with its head",
                objects=(f"submission/{item.submission}", f"rayjob/{item.name}"),
                evidence=(
                    _evidence(item),
                    Evidence(object="/api/jobs/", text=f"{len(known)} submissions, not this one"),
                ),
                since=case.now.taken_at,
            )


RULES = (
    Rule(
        ids=(
            *("rayjob-validation-failed", "rayjob-submission-failed", "rayjob-log-stream-broke"),
            "rayjob-deadline-exceeded",
        ),
        depth=Depth.CLUSTER,
        check=_check,
    ),
    Rule(ids=("rayjob-failed-cluster-left",), depth=Depth.JOB, check=_left_behind),
    Rule(
        ids=("rayjob-resubmitted", "rayjob-lost-with-head"),
        depth=Depth.JOB,
        check=lambda case: [*_resubmitted(case), *_lost(case)],
    ),
)
