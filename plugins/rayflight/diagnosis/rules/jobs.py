"""Submissions that ended badly: what Ray says of their end, what their last lines prove. Guesses stay guesses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.job_words import JOB_KINDS, UNSETTLED, JobKind
from rayflight.diagnosis.kinds import KINDS
from rayflight.diagnosis.nccl import Timeouts, timeouts
from rayflight.diagnosis.tracebacks import last_crash
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.model import Job
from rayflight.states import JobStatus

_NOT_FOUND = 127  # the shell's exit code for a command that does not exist
_SIGNALS = 128
# SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV: a process gets these for what it did itself.
_OWN_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}
_SENT_SIGNALS = (9, 15)
_FRAME = re.compile(r"^\s+File \".*\", line \d+, in ", re.MULTILINE)


def _check(case: Case) -> Iterable[Finding]:
    job = case.job
    if job is None:
        return
    hang = case.now.hang
    if job.status is JobStatus.STOPPED and not (hang is not None and hang.ended and hang.submission == job.id):
        yield _stopped(job)
    if job.status is JobStatus.FAILED:
        ended = _failed(case, job)
        if ended is not None:
            yield ended


def _ended_somehow(case: Case) -> Iterable[Finding]:
    """An end whose own words settle nothing, where something deeper explains it."""
    job = case.job
    if job is None or job.status is not JobStatus.FAILED or _failed(case, job) is not None:
        return
    words = case.driver_log(job)
    said = next((line for line in words.splitlines() for it in UNSETTLED if re.search(it, line)), "")
    yield KINDS["submission-failed"].finding(
        f"Submission {job.id} failed: {quoting.clip(said or quoting.last_lines(job.message), 300)}",
        objects=(f"submission/{job.id}",),
        evidence=(quoting.job(job),),
        since=job.ended_at,
    )


def _stopped(job: Job) -> Finding:
    return _finding(
        job,
        id="job-stopped",
        title="Somebody stopped the job",
        summary=f"Submission {job.id} was stopped at {job.ended_at}: {quoting.clip(job.message, 200)}",
        next_step="see who stopped it; submit again if it was a mistake",
        decision=Decision.FAIL,
    )


def _failed(case: Case, job: Job) -> Finding | None:
    """None where the words are of a kind that nobody has settled: they are facts then."""
    words = case.driver_log(job)
    kind = next((kind for kind in JOB_KINDS if _is(kind, job, words)), None)
    unsettled = any(re.search(pattern, words) for pattern in UNSETTLED)
    if kind is not None and not kind.pattern and unsettled:
        return None  # the type only says where it surfaced
    if kind is not None:
        return _finding(
            job,
            id=kind.id,
            title=kind.title,
            summary=f"Submission {job.id} failed: {kind.title}: {_proof(kind, words) or _ending(job.message)}",
            next_step=kind.next_step,
            decision=kind.decision,
        )
    waited = timeouts(words)
    if waited is not None:
        return _collective(job, waited)
    crash = last_crash(words)
    if unsettled or (crash and crash.of_another and _by_exception(job)):
        return None
    return _exception(job, words) or _exit(job)


def _collective(job: Job, waited: Timeouts) -> Finding | None:
    """A time-out names those who waited; only what is proven of the others is a cause."""
    sequence = max(number for number, _ in waited.waiting.values())
    objects = (f"submission/{job.id}", *(f"rank/{rank}" for rank in waited.behind))
    evidence = (quoting.log(f"driver/{job.id}", waited.line), quoting.job(job))
    if waited.different:
        said = "; ".join(f"rank {_ranks(ranks)} in {operation}" for operation, ranks in waited.different.items())
        return KINDS["nccl-collectives-differ"].finding(
            f"Submission {job.id} failed: at collective {sequence} the ranks waited in different operations ({said}): "
            "the code "
            "does not call the same collectives in the same order everywhere",
            objects=objects,
            evidence=evidence,
            since=job.ended_at,
        )
    if waited.behind:
        return KINDS["nccl-rank-behind"].finding(
            f"Submission {job.id} failed: rank {_ranks(waited.behind)} stopped first, it never entered collective "
            f"{sequence}, in "
            f"which rank {_ranks(sorted(waited.waiting))} waited until NCCL's time-out",
            objects=objects,
            evidence=evidence,
            since=job.ended_at,
        )
    if waited.absent:
        return KINDS["nccl-rank-behind"].finding(
            f"Submission {job.id} failed: rank {_ranks(waited.absent)} of {waited.world} was not there: every other "
            f"rank waited in collective {sequence} until NCCL's time-out, it printed none; whatever stopped it came "
            "first",
            objects=(*objects, *(f"rank/{rank}" for rank in waited.absent)),
            evidence=evidence,
            since=job.ended_at,
            decision=Decision.RETRY_ELSEWHERE,
        )
    return None


def _ranks(ranks: Sequence[int]) -> str:
    return quoting.listed([str(rank) for rank in ranks])


def _by_exception(job: Job) -> bool:
    return job.driver_exit_code in (1, None)


def _exception(job: Job, words: str) -> Finding | None:
    """The user's own exception: which, and in which line of whose file."""
    crash = last_crash(words) if _by_exception(job) else None
    if crash is None:
        return None
    where = f" at {crash.where}" if crash.where else ""
    where += f" on rank {crash.ranks}" if crash.ranks else ""
    return KINDS["driver-exception"].finding(
        f"Submission {job.id} failed with exit code {job.driver_exit_code or 1}: "
        f"{quoting.clip(crash.quoted, 300)}{where}",
        objects=(f"submission/{job.id}",),
        evidence=(quoting.log(f"driver/{job.id}", f"{crash.where}: {crash.quoted}"), quoting.job(job)),
        since=job.ended_at,
    )


def _is(kind: JobKind, job: Job, words: str) -> bool:
    untyped = bool(kind.untyped) and not job.error_type and re.match(kind.untyped, job.message) is not None
    by_error = not kind.error or kind.error == job.error_type or untyped
    return by_error and (not kind.pattern or re.search(kind.pattern, words) is not None)


def _command(job: Job) -> str:
    """Its entrypoint in one line: it may be a whole script."""
    return quoting.clip(" ".join(job.entrypoint.split()), 120)


def _ending(text: str) -> str:
    """What a traceback says is its last line."""
    return quoting.last_lines(text, 1) if _FRAME.search(text) else quoting.last_lines(text)


def _proof(kind: JobKind, words: str) -> str:
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
            summary=f"Submission {job.id}: exit code 127, command not found: `{_command(job)}`; last lines: {said}",
            next_step="correct the entrypoint, or use an image that has the command",
            decision=Decision.FAIL,
        )
    signal = _signal(code)
    if signal in _OWN_SIGNALS:
        return _finding(
            job,
            id="driver-crashed",
            title="The driver crashed in native code",
            summary=f"Submission {job.id}: the driver crashed ({_OWN_SIGNALS[signal]}, signal {signal}); "
            f"last lines: {said}",
            next_step="run it with PYTHONFAULTHANDLER=1 for the Python line; look at native libraries and kernels",
            decision=Decision.FAIL,
        )
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
        summary=f"Submission {job.id} failed with {exited} (`{_command(job)}`); last lines: {said}",
        next_step="read the driver log; the code that ran ended itself this way",
        decision=Decision.FAIL,
    )


def _signal(code: int | None) -> int:
    if code is None:
        return 0
    known = (*_OWN_SIGNALS, *_SENT_SIGNALS)
    return -code if code < 0 else code - _SIGNALS if code - _SIGNALS in known else 0


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
        layer=KINDS[id].layer,
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
        layer=Layer.USER,
        summary=f"Submission {case.submission} is not known in session {ray.session}: somebody deleted it",
        next_step="see who deleted it, and train again",
        decision=Decision.FAIL,
        objects=(f"submission/{case.submission}",),
        evidence=(
            Evidence(object="/api/jobs/", text=f"{len(ray.jobs)} submissions, not this one", at=case.now.taken_at),
        ),
        since=case.now.taken_at,
    )


_EXITS = (
    *("driver-exception", "nccl-rank-behind", "nccl-collectives-differ"),
    *("entrypoint-failed", "entrypoint-not-found", "driver-killed", "driver-crashed", "job-stopped"),
)
RULES = (
    Rule(ids=(*dict.fromkeys(kind.id for kind in JOB_KINDS), *_EXITS), depth=Depth.JOB, check=_check, ends_jobs=True),
    Rule(ids=("submission-failed",), depth=Depth.JOB, check=_ended_somehow, ends_jobs=True, symptom=True),
    Rule(ids=("submission-deleted",), depth=Depth.JOB, check=_unknown_to_ray, ends_jobs=True),
)
