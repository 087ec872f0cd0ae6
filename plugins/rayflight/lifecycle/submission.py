"""Submits exactly once: finds what this task already submitted on this cluster, adopts it, or submits the next number.

The rules are decision 2. The authority is Ray's own job list; the id is deterministic, so that two racing submitters
make one job, and a lost response is recovered by asking.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayflight.backends.base import ClusterRef, RayJobs, Submission
from rayflight.errors import ApiUnreachable, Conflict, ForeignObject, NotVerified
from rayflight.findings import Decision
from rayflight.labels import READY_SESSION, TAKEN, VERIFIED_SESSION, digest
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.rayjobs.packages import pack
from rayflight.rayjobs.probe import HOOK, probe_package
from rayflight.snapshot.model import Job
from rayflight.specs import JobSpec, ScriptVariable
from rayflight.states import JobStatus

_PAUSES = (1.0, 4.0)  # seconds before a request whose answer was lost is made again; then it is the retry's business
TASK, NUMBER, TRY, FINGERPRINT = "rayflight_task", "rayflight_number", "rayflight_try", "rayflight_fingerprint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A submission of ours in the world. ``adopted`` when it was there before this call."""

    id: str
    number: int
    session: str
    adopted: bool


def submission_id(ref: ClusterRef, task: str, number: int) -> str:
    """Deterministic: the same cluster, task and number always give the same id.

    A cluster that Kueue took and gave back has an empty job table: what is submitted then is something else.
    """
    taken = ref.annotations.get(TAKEN)
    return f"rf-{digest(ref.uid, task, taken) if taken else digest(ref.uid, task)}-{number}"


def mine(jobs: Iterable[Job], task: str) -> list[Job]:
    """This task's submissions on this cluster, by number."""
    found = [job for job in jobs if job.metadata.get(TASK) == digest(task) and NUMBER in job.metadata]
    return sorted(found, key=lambda job: int(job.metadata[NUMBER]))


def choose(jobs: list[Job], *, try_number: int) -> tuple[int, Job | None]:
    """Decision 2 as a table: (number, the job to adopt or None to submit under that number).

    A job that this same try submitted is followed whatever became of it: a restart in mid-try is not a new try.
    """
    if not jobs:
        return 1, None
    last = jobs[-1]
    same_try = last.metadata.get(TRY) == str(try_number)
    if same_try or last.status not in (JobStatus.FAILED, JobStatus.STOPPED):
        return int(last.metadata[NUMBER]), last
    return int(last.metadata[NUMBER]) + 1, None


def verdict_file(flight: Flight, submission: str) -> str:
    """Where in the archive the decision about a submission's end is kept."""
    return f"{flight.folder}/verdict-{submission}.json"


async def submit_once(
    tools: Tools, flight: Flight, ref: ClusterRef, job: JobSpec, *, task: str, try_number: int, first_try: int = 0
) -> Submitted:
    """Raises NotVerified, ForeignObject, InvalidSpec (working_dir), ApiUnreachable, RequestRejected.

    ``first_try`` is the task's first try since it was last cleared: what Airflow retries by itself began there.
    """
    api = tools.backend.jobs(ref)
    _, session = await api.version()
    _check_session(flight, ref, session)
    jobs = mine(await api.list(), task)
    number, known = choose(jobs, try_number=try_number)
    if known is None and await _is_settled(tools, flight, jobs, first_try or try_number):
        known, number = jobs[-1], int(jobs[-1].metadata[NUMBER])
    if known is not None:
        tools.say("Adopting submission %s (%s): this task submitted it before", known.id, known.status)
        return Submitted(id=known.id, number=number, session=session, adopted=True)
    submission = await _build(api, flight, ref, job, task=task, number=number, try_number=try_number, session=session)
    try:
        await _submit(tools, api, flight, ref, submission)
    except Conflict:
        await _adopt_or_refuse(api, submission)
        return Submitted(id=submission.id, number=number, session=session, adopted=True)
    tools.say("Submitted %s (number %d of this task on %s): %s", submission.id, number, ref, submission.entrypoint)
    return Submitted(id=submission.id, number=number, session=session, adopted=False)


async def _is_settled(tools: Tools, flight: Flight, jobs: Sequence[Job], first_try: int) -> bool:
    """Whether it was decided already that a retry cannot mend the last one's end, and nobody cleared the task since.

    Airflow may lose a task's failure and retry what must not be retried (decision 25).
    """
    last = jobs[-1] if jobs else None
    if last is None or int(last.metadata.get(TRY, 0)) < first_try:
        return False
    kept = await tools.archive.read(verdict_file(flight, last.id))
    return kept is not None and json.loads(kept).get("decision") == Decision.FAIL


async def _submit(tools: Tools, api: RayJobs, flight: Flight, ref: ClusterRef, submission: Submission) -> None:
    """Asks again where the answer was lost: the id is the same, so whatever came through first is all that there is."""
    for pause in _PAUSES:
        try:
            return await api.submit(submission)
        except ApiUnreachable as error:
            tools.say("No answer to submission %s, asking again in %g s: %s", submission.id, pause, error)
        await asyncio.sleep(pause)
        _, session = await api.version()
        _check_session(flight, ref, session)  # a head that came meanwhile knows nothing of the first request
    return await api.submit(submission)


def _check_session(flight: Flight, ref: ClusterRef, session: str) -> None:
    """Refuses a cluster that this attempt did not verify (or, without verification, did not see ready)."""
    wanted = VERIFIED_SESSION if flight.verify else READY_SESSION
    passed = ref.annotations.get(wanted)
    if passed != session:
        word = "verified" if flight.verify else "seen ready"
        why = f"its Ray session {session} was not {word} by this attempt" + (f" (that was {passed})" if passed else "")
        raise NotVerified(
            "Refusing to train on cluster", which=str(ref), why=why, next_step="clear `provision` with downstream"
        )


async def _build(
    api: RayJobs,
    flight: Flight,
    ref: ClusterRef,
    job: JobSpec,
    *,
    task: str,
    number: int,
    try_number: int,
    session: str,
) -> Submission:
    runtime_env: dict[str, Any] = dict(job.runtime_env)
    if job.working_dir is not None:
        package = await asyncio.to_thread(pack, job.working_dir)
        runtime_env["working_dir"] = await api.upload_package(package.name, package.archive)
    if job.stack_signal:
        package = await asyncio.to_thread(probe_package)
        runtime_env["py_modules"] = [await api.upload_package(package.name, package.archive)]
        runtime_env["worker_process_setup_hook"] = HOOK
    # Ray colours the prefix of every worker's line: escape codes in the archive and in the task log serve nobody.
    runtime_env["env_vars"] = {
        "RAY_COLOR_PREFIX": "0",
        **runtime_env.get("env_vars", {}),
        **job.env,
        **script_environment(flight, job, number),
    }
    fingerprint = digest(job.entrypoint, sorted(runtime_env.items(), key=lambda item: item[0]), length=32)
    owner = flight.owner
    metadata = {
        **job.metadata,
        "dag_id": owner.dag_id,
        "run_id": owner.run_id,
        "attempt": str(owner.attempt),
        "rayflight_session": session,
        TASK: digest(task),
        NUMBER: str(number),
        TRY: str(try_number),
        FINGERPRINT: fingerprint,
    }
    return Submission(
        id=submission_id(ref, task, number),
        entrypoint=job.entrypoint,
        runtime_env=runtime_env,
        metadata=metadata,
        num_cpus=job.entrypoint_num_cpus,
        num_gpus=job.entrypoint_num_gpus,
        memory_bytes=job.entrypoint_memory_bytes,
        resources=job.entrypoint_resources,
    )


def script_environment(flight: Flight, job: JobSpec, number: int) -> Mapping[str, str]:
    """What every script gets, so that a backfill trains each interval's own data."""
    owner, interval = flight.owner, flight.interval
    values: dict[str, str] = {
        ScriptVariable.DAG_ID: owner.dag_id,
        ScriptVariable.RUN_ID: owner.run_id,
        ScriptVariable.LOGICAL_DATE: interval.logical_date,
        ScriptVariable.DATA_INTERVAL_START: interval.start,
        ScriptVariable.DATA_INTERVAL_END: interval.end,
        ScriptVariable.ATTEMPT: str(owner.attempt),
        ScriptVariable.SUBMISSION: str(number),
    }
    storage = job.storage or flight.cluster_spec.storage
    if storage is not None:
        # One folder per flight, not per attempt: a retried training resumes from its last checkpoint.
        values[ScriptVariable.STORAGE_PATH] = storage.under(owner.flight_digest)
    return values


async def _adopt_or_refuse(api: RayJobs, submission: Submission) -> None:
    """The id exists: ours (a racing or repeated request of the same content) or somebody else's."""
    job = await api.get(submission.id)
    if job is not None and job.metadata.get(FINGERPRINT) == submission.metadata[FINGERPRINT]:
        return
    raise ForeignObject(
        "A submission of this id exists already with another content:",
        which=submission.id,
        why=f"its entrypoint is {job.entrypoint!r}" if job else "Ray says so, yet does not know it",
        next_step="clear `provision` with downstream to train on a cluster of its own",
    )
