"""Follows a submission to its end: status and driver log together, both layers watched.

"The log ended" is never "the job ended", and an API that does not answer says nothing about the job. A job that is
gone with its head, and a job that stays RUNNING though it can never finish, end the wait with their cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from rayflight.archive import SegmentedLog
from rayflight.backends.base import ClusterRef, RayJobs
from rayflight.diagnosis import decisive, diagnose
from rayflight.errors import ApiUnreachable, Diagnosed, JobFailed, RayflightError, WaitTimedOut
from rayflight.findings import Decision, Diagnosis, Evidence, Finding, Layer
from rayflight.labels import CONDEMNED
from rayflight.lifecycle.driver_log import DriverLog
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.hang_records import with_its_hang
from rayflight.lifecycle.hangs import HangWatch
from rayflight.lifecycle.memory import Memory
from rayflight.lifecycle.submission import verdict_file
from rayflight.lifecycle.watching import Tell, Watch
from rayflight.snapshot.model import Job, Snapshot
from rayflight.specs import OnHang
from rayflight.states import JobStatus

_POLL = 0.7  # seconds: a line must be in the task log within 2 s; the Jobs API has no watch
_LOOK = timedelta(seconds=5)  # how often both layers are looked at while nothing changes
_SILENCE = timedelta(minutes=10)  # after which an unreachable cluster ends the wait
_SAY_AGAIN = timedelta(minutes=1)
_LAST_LINES = timedelta(minutes=1)  # how long the log of an ended job is asked for where nobody serves it
_LOOKS_AFTER, _BETWEEN_LOOKS = 6, 1.0  # at an end whose cause lies below and has not come up yet; seconds
_DIED_SOMEHOW = frozenset({"worker-process-died", "ray-node-dead"})
_GLANCE = timedelta(seconds=2)  # how often Kubernetes' side alone is looked at: less than the shortest grace of a pod
_SETTLE = timedelta(seconds=5)  # a hopeless picture must stay as it is this long (replacements are made within 1 s)
_CLOSELY = timedelta(seconds=2)  # how often it is looked at meanwhile
_BEGINNING = timedelta(seconds=30)  # and in the beginning, when what can never be placed shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A submission that SUCCEEDED. ``metrics`` is the script's last progress report; times are the job's own.

    ``watched`` are the rows that failed while it ran (``lifecycle.watching``).
    """

    submission_id: str
    status: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    log_bytes: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    watched: Sequence[Mapping[str, Any]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: XCom would keep a tuple as a tuple, and every other reader of it stumble."""
        return {**asdict(self), "watched": [dict(row) for row in self.watched]}


@dataclass
class Follower:
    """One submission being followed. Started anew at any time, it goes on from the archive's last byte."""

    tools: Tools
    flight: Flight
    ref: ClusterRef
    submission_id: str
    session: str
    deadline: datetime | None = None
    on_hang: OnHang = OnHang.REPORT
    hang_after: timedelta | None = None
    status: str = ""
    hopeless_since: datetime | None = None
    silent_since: datetime | None = None
    began: datetime | None = None
    looked_at: datetime | None = None
    glanced_at: datetime | None = None
    silence_said: datetime | None = None
    driver_node_id: str = ""
    memory: Memory = field(default_factory=Memory)
    snapshot: Snapshot | None = None
    tell: Tell | None = None
    watch: Watch = field(init=False)
    hang: HangWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.tools, self.flight, self.ref, self.tell)
        self.hang = HangWatch(
            tools=self.tools,
            ref=self.ref,
            folder=self.flight.folder,
            submission=self.submission_id,
            session=self.session,
            on_hang=self.on_hang,
            after=self.hang_after,
        )

    async def follow(self) -> Outcome:
        """Returns on SUCCEEDED. Raises JobFailed with its diagnosis otherwise, WaitTimedOut at the deadline.

        Where the cause asks for another cluster, this one is condemned: the job may still be RUNNING there, and a
        retry would adopt it.
        """
        try:
            return await self._follow()
        except Diagnosed as error:
            if error.diagnosis.cause:
                await self._keep_verdict(error.diagnosis.cause)
                if error.decision is Decision.RETRY_ELSEWHERE:
                    await self._condemn(error.diagnosis.cause.id)
            raise

    async def _keep_verdict(self, cause: Finding) -> None:
        """For whoever retries although it was decided that a retry mends nothing."""
        kept = {"cause": cause.id, "decision": cause.decision}
        try:
            await self.tools.archive.write_json(verdict_file(self.flight, self.submission_id), kept)
        except RayflightError as error:
            self.tools.say("The verdict could not be kept: %s", error)

    async def _condemn(self, cause: str) -> None:
        """What cannot be noted (the cluster is gone) needs no note."""
        try:
            await self.tools.backend.annotate(self.ref, {CONDEMNED: cause})
        except RayflightError as error:
            self.tools.say("Cluster %s could not be condemned: %s", self.ref, error)

    async def _follow(self) -> Outcome:
        api = self.tools.backend.jobs(self.ref)
        log = DriverLog(
            self.tools, api, SegmentedLog(self.tools.archive, f"{self.flight.folder}/driver/{self.submission_id}")
        )
        await log.resume()
        async for _ in self.tools.backend.changes(self.ref, at_least_every=_POLL):
            try:
                await self._glance()
                outcome = await self._step(api, log)
            except ApiUnreachable as error:
                await self._unreachable(error, log)
                continue
            self.silent_since = None
            if outcome is not None:
                return outcome
            await self._check_deadline(api, log)
        raise AssertionError("changes() never ends")

    async def _glance(self) -> None:
        """A pod that is thrown out says why for the seconds of its grace only. From the watches: it asks nobody."""
        now = self.tools.now()
        if self.glanced_at is None or now - self.glanced_at >= _GLANCE:
            self.glanced_at = now
            if self.memory.moved(await self.tools.observe(self.ref, ray=False)):
                self.looked_at = None  # both layers, at once

    async def _step(self, api: RayJobs, log: DriverLog) -> Outcome | None:
        job = await api.get(self.submission_id)
        if job is None:
            await self._lost(api)
            return None
        self._note(job)
        if job.status.ended:
            await self._drain(log, job)
            return await self._ended(log, job)
        await log.pump(job)
        self.hang.heard(log)
        await self._watch_both_layers(log)
        if self.hopeless_since is None:
            await self._watch_silence(api, job, log)
        return None

    def _note(self, job: Job) -> None:
        self.driver_node_id = job.driver_node_id or self.driver_node_id
        if job.status != self.status:
            self.status = job.status
            self.tools.say(
                "Submission %s is %s%s",
                job.id,
                job.status,
                f": {job.message}" if job.message and not job.status.ended else "",
            )

    async def _drain(self, log: DriverLog, job: Job) -> None:
        """The driver's last lines reach its file a moment after the status: read until nothing comes any more.

        Raises ApiUnreachable while the log may still be had; after a grace the end counts and the gap is said.
        """
        quiet = 0
        try:
            while quiet < 2:
                quiet = 0 if await log.pump(job, final=True) else quiet + 1
                if quiet < 2:
                    await asyncio.sleep(0.1)
        except ApiUnreachable as error:
            if self.silent_since is None or self.tools.now() - self.silent_since < _LAST_LINES:
                raise
            self.tools.say("The driver log from byte %d on could not be read: %s", log.offset, error)

    async def _ended(self, log: DriverLog, job: Job) -> Outcome:
        await self.tools.archive.write_json(f"{self.flight.folder}/submission-{job.id}.json", asdict(job))
        if job.status is JobStatus.SUCCEEDED:
            return Outcome(
                submission_id=job.id,
                status=job.status,
                metrics=dict(log.progress),
                log_bytes=log.offset,
                started_at=job.started_at,
                ended_at=job.ended_at,
                watched=self.watch.found,
            )
        diagnosis = await self._why_it_ended(job, log)
        if diagnosis.cause is None:
            diagnosis = _plain(job, log, diagnosis)
        raise JobFailed(f"Submission {job.id} ended {job.status}", which=f"on {self.ref}", diagnosis=diagnosis)

    async def _why_it_ended(self, job: Job, log: DriverLog) -> Diagnosis:
        """A process that died shows in the job at once, in its container and in Kubernetes some seconds later."""
        then = self.memory.before
        for look in range(1, _LOOKS_AFTER + 1):
            seen = await with_its_hang(self.tools.archive, self.flight.folder, await self._observe())
            diagnosis = diagnose(
                seen,
                previous=then,
                submission=job.id,
                session=self.session,
                log_tail=log.tail,
                history=self.memory.leavings,
            )
            if look == _LOOKS_AFTER or diagnosis.cause is None or diagnosis.cause.id not in _DIED_SOMEHOW:
                break
            await asyncio.sleep(_BETWEEN_LOOKS)
        return diagnosis

    async def _lost(self, api: RayJobs) -> None:
        """404: gone with its head (another session), or the whole cluster is gone."""
        try:
            _, session = await api.version()
        except ApiUnreachable:
            session = ""
        then = self.memory.before
        diagnosis = await self._judged(then)
        why = (
            "the cluster's head was replaced"
            if session and session != self.session
            else "Ray does not know it any more"
        )
        evidence = (
            Evidence(object=str(self.ref), text=f"Ray session was {self.session}, is {session or 'unreachable'}"),
        )
        if diagnosis.cause is None:
            diagnosis = Diagnosis(
                verdict="cause", cause=_head_lost(self.submission_id, why, evidence), facts=diagnosis.facts
            )
        raise JobFailed(f"Submission {self.submission_id} is lost", which=f"on {self.ref}", diagnosis=diagnosis)

    async def _judged(self, then: Snapshot | None) -> Diagnosis:
        """Of a suspended cluster not before it is known who suspended it, or some seconds have passed."""
        for look in range(1, _LOOKS_AFTER + 1):
            seen = await self._observe()
            diagnosis = diagnose(
                seen,
                previous=then,
                submission=self.submission_id,
                session=self.session,
                history=self.memory.leavings,
            )
            if look == _LOOKS_AFTER or not _is_suspended(seen) or _says_who_suspended(seen, diagnosis):
                break
            await asyncio.sleep(_BETWEEN_LOOKS)
        return diagnosis

    async def _watch_both_layers(self, log: DriverLog) -> None:
        """A job that can never finish stays RUNNING: look at both layers, and end it when that picture holds."""
        now = self.tools.now()
        self.began = self.began or now
        closely = self.hopeless_since is not None or now - self.began < _BEGINNING
        if self.looked_at and now - self.looked_at < (_CLOSELY if closely else _LOOK):
            return
        self.looked_at = now
        self._stop_if_hopeless(await self._observe(), log, now)

    def _stop_if_hopeless(self, seen: Snapshot, log: DriverLog, now: datetime) -> None:
        diagnosis = diagnose(seen, submission=self.submission_id, session=self.session, log_tail=log.tail)
        if not decisive(diagnosis):
            self.hopeless_since = None
            return
        self.hopeless_since = self.hopeless_since or now
        # Suspended: all pods go, though Ray says RUNNING until its head's grace period is over. Nothing will settle,
        # once it is known who suspended it: what Kueue says of that is seen some seconds after the pods begin to go.
        if _says_who_suspended(seen, diagnosis) or now - self.hopeless_since >= _SETTLE:
            raise JobFailed(
                f"Submission {self.submission_id} is {self.status} but can never finish",
                which=f"on {self.ref}",
                diagnosis=diagnosis,
            )

    async def _watch_silence(self, api: RayJobs, job: Job, log: DriverLog) -> None:
        """A job in which nothing moves stays RUNNING, too; what becomes of it is the job's own ``on_hang``."""
        diagnosis = await self.hang.look(api, job, self.snapshot, log) if self.snapshot else None
        if diagnosis is None:
            return
        stopped = await api.stop(self.submission_id)
        self.tools.say("on_hang is %s: asked Ray to stop %s (%s)", self.on_hang, self.submission_id, stopped)
        raise JobFailed(
            f"Submission {self.submission_id} is {self.status} but nothing moves",
            which=f"on {self.ref}",
            diagnosis=diagnosis,
        )

    async def _observe(self) -> Snapshot:
        self.snapshot = await self.tools.observe(self.ref)
        self.memory.keep(self.snapshot)
        await self.watch.look(self.snapshot)
        return self.snapshot

    async def _unreachable(self, error: ApiUnreachable, log: DriverLog) -> None:
        """Says it once; the head may be gone, which Kubernetes knows even while the dashboard is silent."""
        now = self.tools.now()
        if self.silent_since is None:
            self.silent_since = self.silence_said = now
            self.tools.say("The cluster does not answer, the job is followed on: %s", error)
        elif self.silence_said and now - self.silence_said >= _SAY_AGAIN:
            self.silence_said = now
            seconds = (now - self.silent_since).total_seconds()
            self.tools.say("The cluster has not answered for %.0f s: %s", seconds, error)
        try:
            if await self._head_is_gone():
                await self._lost(self.tools.backend.jobs(self.ref))
            snapshot = await self._observe()
        except ApiUnreachable:
            snapshot = None
        if snapshot is not None and snapshot.cluster is None:
            await self._lost(self.tools.backend.jobs(self.ref))
        # With Ray's own state in sight it is only the log that cannot be had: a dead driver on a GCS that lives on.
        if snapshot is not None and (_is_suspended(snapshot) or snapshot.ray is not None):
            self._stop_if_hopeless(snapshot, log, now)
        if now - self.silent_since >= _SILENCE or (self.deadline and now >= self.deadline):
            diagnosis = diagnose(snapshot) if snapshot else Diagnosis(verdict="unknown", facts=(str(error),))
            raise WaitTimedOut(
                f"Submission {self.submission_id} could not be followed", which=f"on {self.ref}", diagnosis=diagnosis
            )

    async def _head_is_gone(self) -> bool:
        """Known from Kubernetes alone: the next head, which would say that it knows no such job, may take minutes."""
        if not self.memory.lost_its_head(await self.tools.observe(self.ref, ray=False)):
            return False
        tolerant = self.flight.cluster_spec.gcs_fault_tolerance is not None
        return not tolerant or self.memory.was_head(self.driver_node_id)

    async def _check_deadline(self, api: RayJobs, log: DriverLog) -> None:
        """Out of time: the training is stopped, or a retry would only adopt it."""
        if self.deadline is None or self.tools.now() < self.deadline:
            return
        stopped = await api.stop(self.submission_id)
        self.tools.say("Out of time: asked Ray to stop %s (%s)", self.submission_id, stopped)
        cause = _out_of_time(self.submission_id, self.status, log.tail[-1] if log.tail else "")
        hang = self.hang.finding
        raise JobFailed(
            f"Submission {self.submission_id} did not end in time",
            which=f"on {self.ref}",
            diagnosis=Diagnosis(verdict="cause", cause=cause)
            if hang is None
            else Diagnosis(
                verdict="cause",
                cause=replace(hang, decision=Decision.FAIL),
                consequences=(replace(cause, consequence_of=(hang.id,)),),
            ),
        )


def _says_who_suspended(seen: Snapshot, diagnosis: Diagnosis) -> bool:
    cause = diagnosis.cause.id if diagnosis.cause else ""
    return _is_suspended(seen) and (cause.startswith("kueue-") or cause == "suspended-by-hand")


def _is_suspended(seen: Snapshot) -> bool:
    return seen.cluster is not None and seen.cluster.suspended


def _plain(job: Job, log: DriverLog, diagnosis: Diagnosis) -> Diagnosis:
    """What is said when no rule explains the end: Ray's own words, nothing guessed."""
    facts = (
        f"Ray says: {job.message.splitlines()[0] if job.message else job.status}",
        *log.tail[-5:],
        *diagnosis.facts,
    )
    return Diagnosis(verdict="unknown", facts=facts, gaps=diagnosis.gaps)


def _out_of_time(submission_id: str, status: str, last_line: str) -> Finding:
    return Finding(
        id="training-out-of-time",
        title="The training took longer than it may",
        layer=Layer.RAY,
        summary=f"Submission {submission_id} was {status} when its time was over; its last line: {last_line or 'none'}",
        next_step="give the job a longer timeout, or see in its log why it was slow",
        decision=Decision.FAIL,
        objects=(f"submission/{submission_id}",),
    )


def _head_lost(submission_id: str, why: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        id="submission-lost",
        title="The submission is gone",
        layer=Layer.RAY,
        summary=f"Submission {submission_id} is lost, not running: {why}; Ray keeps its jobs in the head's memory.",
        next_step="see the head pod's events for why it died; a retry resumes from the last checkpoint",
        decision=Decision.RETRY_ELSEWHERE,
        evidence=evidence,
    )
