"""Submissions that ended badly: what Ray says of their end, what their last lines prove. Guesses stay guesses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.model import Job
from rayflight.states import JobStatus

_NOT_FOUND = 127  # the shell's exit code for a command that does not exist
_SIGNALS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of end: by Ray's error type, or by words that only this fault prints."""

    id: str
    title: str
    next_step: str
    error: str = ""
    pattern: str = ""
    decision: Decision = Decision.FAIL


# The first that matches decides: words that prove a cause come before the error types that only say where it surfaced.
_KINDS = (
    _Kind(
        id="ray-memory-monitor-killed",
        title="Ray's memory monitor killed workers",
        pattern=r"(killed|Task was killed) due to the node running low on memory",
        next_step="give the pods more memory, or use less per worker",
    ),
    _Kind(
        id="gpu-out-of-memory",
        title="A GPU ran out of memory",
        pattern=r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUDA error: out of memory",
        next_step="use a smaller batch or model shard, or a larger GPU",
    ),
    _Kind(
        id="shared-memory-too-small",
        title="Shared memory is too small",
        pattern=(
            r"insufficient shared memory|DataLoader worker .* killed by signal: Bus error"
            r"|posix_fallocate failed : No space left"
        ),
        next_step="raise the memory limit (it sizes /dev/shm), or use fewer data loader workers",
    ),
    _Kind(
        id="runtime-env-failed",
        title="The runtime environment could not be set up",
        error="RUNTIME_ENV_SETUP_FAILURE",
        next_step="check working_dir, packages and the pods' way to the package index",
    ),
    _Kind(
        id="entrypoint-resources-unavailable",
        title="The entrypoint's resources never became free",
        error="JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
        next_step="ask for less for the entrypoint, or for larger pods",
    ),
    _Kind(
        id="entrypoint-resources-unavailable",
        title="The entrypoint could not be placed",
        error="JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
        next_step="ask for less for the entrypoint, or for larger pods",
    ),
    _Kind(
        id="job-supervisor-lost",
        title="Ray lost the job's supervisor",
        pattern=r"failed to get job supervisor",
        error="JOB_SUPERVISOR_ACTOR_START_FAILURE",
        decision=Decision.RETRY_ELSEWHERE,
        next_step="see whether the head restarted; train again on a new cluster",
    ),
    _Kind(
        id="job-parameters-invalid",
        title="Ray refuses the submission's parameters",
        error="JOB_SUPERVISOR_ACTOR_START_FAILURE",
        next_step="correct the entrypoint's resources",
    ),
    _Kind(
        id="job-supervisor-died",
        title="The job's supervisor died",
        error="JOB_SUPERVISOR_ACTOR_DIED",
        decision=Decision.RETRY_ELSEWHERE,
        next_step="see what happened to its node and its memory",
    ),
    _Kind(
        id="job-supervisor-failed",
        title="Ray failed to run the job",
        error="JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
        decision=Decision.RETRY_ELSEWHERE,
        next_step="read Ray's words",
    ),
    _Kind(
        id="entrypoint-not-started",
        title="The entrypoint could not be started",
        error="JOB_ENTRYPOINT_COMMAND_START_ERROR",
        next_step="correct the entrypoint",
    ),
)


def _check(case: Case) -> Iterable[Finding]:
    job = case.job
    if job is None:
        return
    if job.status is JobStatus.STOPPED:
        yield _stopped(job)
    if job.status is JobStatus.FAILED:
        yield _failed(case, job)


def _stopped(job: Job) -> Finding:
    return _finding(
        job,
        id="job-stopped",
        title="Somebody stopped the job",
        summary=f"Submission {job.id} was stopped at {job.ended_at}: {quoting.clip(job.message, 200)}",
        next_step="see who stopped it; submit again if it was a mistake",
        decision=Decision.FAIL,
    )


def _failed(case: Case, job: Job) -> Finding:
    words = f"{job.message}\n{case.now.logs.get(f'driver/{job.id}', '')}"
    kind = next((kind for kind in _KINDS if _is(kind, job, words)), None)
    if kind is None:
        return _exit(job)
    return _finding(
        job,
        id=kind.id,
        title=kind.title,
        summary=f"Submission {job.id} failed: {kind.title}: {_proof(kind, words) or quoting.last_lines(job.message)}",
        next_step=kind.next_step,
        decision=kind.decision,
    )


def _is(kind: _Kind, job: Job, words: str) -> bool:
    by_error = not kind.error or kind.error == job.error_type
    return by_error and (not kind.pattern or re.search(kind.pattern, words) is not None)


def _proof(kind: _Kind, words: str) -> str:
    """The line that holds the proof."""
    if not kind.pattern:
        return ""
    found = [line for line in words.splitlines() if re.search(kind.pattern, line)]
    return quoting.clip(found[-1], 400) if found else ""


def _exit(job: Job) -> Finding:
    code, said = job.driver_exit_code, _last_words(job)
    if code == _NOT_FOUND:
        return _finding(
            job,
            id="entrypoint-not-found",
            title="The entrypoint's command does not exist",
            summary=f"Submission {job.id}: exit code 127, command not found: `{job.entrypoint}`; last lines: {said}",
            next_step="correct the entrypoint, or use an image that has the command",
            decision=Decision.FAIL,
        )
    signal = _signal(code)
    if signal:
        return _finding(
            job,
            id="driver-killed",
            title="The driver was killed",
            summary=(
                f"Submission {job.id}: the driver was killed by signal {signal}; who sent it is not known "
                f"(for 9 often the kernel, out of memory); last lines: {said}"
            ),
            next_step="look at the memory of the pod where the driver ran",
            decision=Decision.RETRY_ELSEWHERE,
        )
    exited = f"exit code {code}" if code is not None else f"error {job.error_type or 'without a type'}"
    return _finding(
        job,
        id="entrypoint-failed",
        title="The entrypoint failed",
        summary=f"Submission {job.id} failed with {exited} (`{job.entrypoint}`); last lines: {said}",
        next_step="read the driver log; the code that ran ended itself this way",
        decision=Decision.FAIL,
    )


def _signal(code: int | None) -> int:
    if code is None:
        return 0
    return -code if code < 0 else code - _SIGNALS if code in (_SIGNALS + 9, _SIGNALS + 11, _SIGNALS + 15) else 0


def _last_words(job: Job) -> str:
    """The message's log lines, without Ray's own sentence before them."""
    _, found, rest = job.message.partition("last available logs")
    text = rest.partition("\n")[2] if found else job.message
    return quoting.last_lines(text)


def _finding(
    job: Job,
    *,
    id: str,  # noqa: A002 - the name of Finding's own field
    title: str,
    summary: str,
    next_step: str,
    decision: Decision,
) -> Finding:
    return Finding(
        id=id,
        title=title,
        layer=Layer.RAY,
        summary=summary,
        next_step=next_step,
        decision=decision,
        objects=(f"submission/{job.id}",),
        evidence=(quoting.job(job),),
        since=job.ended_at,
    )


def _unknown_to_ray(case: Case) -> Iterable[Finding]:
    """The submission is not in the list, though the session is the one in which it was submitted: it was deleted."""
    ray = case.now.ray
    if case.submission is None or case.session is None or ray is None or ray.session != case.session:
        return
    if case.job is not None or not case.can_see("ray.jobs"):
        return
    yield Finding(
        id="submission-deleted",
        title="Ray does not know the submission",
        layer=Layer.RAY,
        summary=f"Submission {case.submission} is not known in session {ray.session}: somebody deleted it",
        next_step="see who deleted it, and train again",
        decision=Decision.FAIL,
        objects=(f"submission/{case.submission}",),
        evidence=(
            Evidence(object="/api/jobs/", text=f"{len(ray.jobs)} submissions, not this one", at=case.now.taken_at),
        ),
        since=case.now.taken_at,
    )


_EXITS = ("entrypoint-failed", "entrypoint-not-found", "driver-killed", "job-stopped")
RULES = (
    Rule(ids=(*dict.fromkeys(kind.id for kind in _KINDS), *_EXITS), depth=Depth.JOB, check=_check, ends_jobs=True),
    Rule(ids=("submission-deleted",), depth=Depth.JOB, check=_unknown_to_ray, ends_jobs=True),
)
