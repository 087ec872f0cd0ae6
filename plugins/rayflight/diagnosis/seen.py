"""What is not as it should be, for a diagnosis without a cause: facts from which nothing is concluded. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case
from rayflight.diagnosis.job_words import UNSETTLED
from rayflight.diagnosis.nccl import timeouts
from rayflight.diagnosis.tracebacks import last_crash
from rayflight.snapshot.model import Job, Pod
from rayflight.snapshot.readiness import map_pods, readiness
from rayflight.states import JobStatus

_PENDING = 60.0  # seconds in which an ordinary submission has begun
_IDLE = 600.0  # seconds without a job after which an autoscaler (60 s by default) has long scaled down
_FORBIDDEN = re.compile(r"(403|[Ff]orbidden)")


def facts(case: Case) -> tuple[str, ...]:
    """In words; empty when all is as it should be."""
    return tuple(_facts(case))


def _facts(case: Case) -> Iterator[str]:
    job = case.job
    if job and job.status in (JobStatus.FAILED, JobStatus.STOPPED):
        yield f"submission {job.id} is {job.status}: {quoting.clip(job.message, 200)}"
        yield from _unsettled(case, job)
    elif not (job and job.status is JobStatus.SUCCEEDED) and not _done(case):
        waiting_for = readiness(case.staying).waiting_for
        if waiting_for:
            yield f"the cluster waits for {waiting_for}"
            yield from _raylets(case)
    if job and job.status is JobStatus.PENDING and case.lasts(job.started_at, _PENDING):
        yield from _pending(case, job)
    if case.now.ray and not case.can_see("ray.jobs"):
        yield "the submissions could not be read: whether a job failed is not known"
    yield from _logs(case)
    yield from _idle(case)


def _done(case: Case) -> bool:
    """Its RayJob is Complete: that the cluster is gone or going is as it should be."""
    mine = (it for it in case.now.rayjobs or () if case.now.name in (it.cluster, it.name))
    return any(it.deployment == "Complete" for it in mine)


def _unsettled(case: Case, job: Job) -> Iterator[str]:
    words = case.driver_log(job)
    for pattern in UNSETTLED:
        line = next((line for line in words.splitlines() if re.search(pattern, line)), None)
        if line:
            yield f"its log says: {quoting.clip(line, 300)}"
    crash = last_crash(words)
    if crash and crash.of_another:
        yield f"its last error only says that another process failed or went: {quoting.clip(crash.quoted, 300)}"
    waited = timeouts(words)
    if waited:
        ranks = ", ".join(
            f"rank {rank} at {number} ({name})" for rank, (number, name) in sorted(waited.waiting.items())
        )
        yield f"waiting in NCCL when the time was over: {ranks}; ranks that are not named here printed no time-out"
    if "WorkerCrashedError" in words or "OOM killer" in words:
        yield "Ray guesses that memory ran out; Kubernetes reports no container here as OOMKilled: not confirmed"
    free = _free(case)
    if free and re.search(UNSETTLED[2], words):
        yield free


def _raylets(case: Case) -> Iterator[str]:
    """The last words of raylets whose pods Ray does not know."""
    joined = map_pods(case.now).candidates
    for pod in case.pods:
        if pod.phase == "Running" and not joined.get(pod.name):
            yield from _last_words(case, pod)


def _last_words(case: Case, pod: Pod) -> Iterator[str]:
    for name, text in case.logs_of(pod):
        if "raylet" in name and text.strip():
            yield f"log {name} ends: {quoting.clip(quoting.last_lines(text, 2), 300)}"


def _pending(case: Case, job: Job) -> Iterator[str]:
    asked = f", its runtime_env has {quoting.listed(job.runtime_env)}" if job.runtime_env else ""
    age = case.age(job.started_at) or 0
    yield f"submission {job.id} is PENDING for {age:.0f} s{asked}: {quoting.clip(job.message, 200)}"
    free = _free(case)
    if free:
        yield free


def _free(case: Case) -> str:
    usage = case.now.ray.usage if case.now.ray else ()
    return f"Ray's resources in use: {quoting.listed(usage)}" if usage else ""


def _logs(case: Case) -> Iterator[str]:
    """Signs whose cause nobody has settled."""
    for name, text in case.now.logs.items():
        container = name.split("/")[1] if name.count("/") else ""
        if container == "autoscaler" and (found := _FORBIDDEN.search(text)):
            said = quoting.clip(quoting.line_of(found), 300)
            yield f"the autoscaler is refused (scaling is off, training may still run): {said}"
        if "No devices found. Waiting indefinitely" in text:
            yield f"log {name}: the device plugin found no device when it started, and waits"


def _idle(case: Case) -> Iterator[str]:
    """Workers of an autoscaled cluster that stay though nothing has run for long."""
    ray, cluster = case.now.ray, case.cluster
    if ray is None or cluster is None or not cluster.autoscaling or not ray.jobs:
        return
    ended = [job.ended_at for job in ray.jobs if job.status.ended and job.ended_at]
    if len(ended) < len(ray.jobs) or not case.lasts(max(ended), _IDLE):
        return
    for group in cluster.groups:
        workers = case.now.workers(group.name)
        if len(workers) > group.minimum:
            yield f"{quoting.pods_named(workers)} of group {group.name} idle since {max(ended)}: not scaled down"
