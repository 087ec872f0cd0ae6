"""Jobs that are PENDING or RUNNING and go nowhere by themselves, read from their log."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Evidence, Finding
from rayflight.snapshot.model import Job
from rayflight.snapshot.readiness import readiness
from rayflight.states import JobStatus

_HANGS = 60.0  # seconds in PENDING; with an index at hand a set-up says something every few seconds
_PACKAGES = ("pip", "uv", "conda", "container", "image_uri", "py_modules", "working_dir")
_AGAIN = 3  # failures without an end in sight
_NO_NETWORK = re.compile(
    r"(Failed to establish a new connection|Temporary failure in name resolution|ConnectTimeoutError"
    r"|Network is unreachable|Retrying \(Retry\(total=)"
)
# Ray Train v2 (train/v2/_internal/execution/failure_handling/default.py). A preemption is no error of the training.
_BLOCK = "[FailurePolicy]"
_COUNTED = re.compile(
    r"Source: (?P<source>controller|worker group).*?Error count: (?P<count>\d+) \(max allowed: inf\)", re.DOTALL
)
_ERROR = re.compile(r"^.*?\b[A-Za-z.]*(?:Error|Exception|timed out after)\b.*$", re.MULTILINE)
_NO_TYPE = re.compile(r"No available node types can fulfill resource requests? (?P<need>\{[^}]*\})")


def _setup_hangs(case: Case) -> Iterable[Finding]:
    job = case.job
    if job is None or job.status is not JobStatus.PENDING or not case.lasts(job.started_at, _HANGS):
        return
    for name, text in case.now.logs.items():
        said = list(_NO_NETWORK.finditer(text)) if "runtime_env" in name else []
        if said:
            yield KINDS["runtime-env-hangs"].finding(
                f"Submission {job.id} is PENDING for {case.age(job.started_at) or 0:.0f} s: the set-up of its runtime "
                "environment "
                f"({quoting.listed(job.runtime_env) or 'runtime_env'}) does not reach the network: "
                f"{quoting.clip(quoting.line_of(said[-1]), 300)}",
                objects=(f"submission/{job.id}",),
                evidence=(quoting.log(name, quoting.line_of(said[-1])),),
                since=job.started_at,
            )
            return


def _setting_up(case: Case) -> Iterable[Finding]:
    """Nothing waits for resources, so what is waited for is the environment."""
    job, ray = case.job, case.now.ray
    if job is None or ray is None or job.status is not JobStatus.PENDING or not case.lasts(job.started_at, _HANGS):
        return
    packages = [name for name in job.runtime_env if name in _PACKAGES]
    if packages and not ray.pending_demands and case.can_see("ray.demands"):
        yield KINDS["runtime-env-setting-up"].finding(
            f"Submission {job.id} is PENDING for {case.age(job.started_at) or 0:.0f} s: its runtime environment "
            f"({quoting.listed(packages)}) is still being set up; no demand waits for resources",
            objects=(f"submission/{job.id}",),
            evidence=(
                Evidence(
                    object=f"submission {job.id}",
                    text=f"PENDING, runtime_env {packages}: {job.message}",
                    at=job.started_at,
                ),
            ),
        )


def _again_and_again(case: Case) -> Iterable[Finding]:
    """Ray Train that meets the same error again and again and retries without a limit: RUNNING for ever.

    While pods are missing, workers that cannot start are no sign of it.
    """
    job = case.job
    if job is None or job.status is not JobStatus.RUNNING:
        return
    blocks = case.now.logs.get(f"driver/{job.id}", "").split(_BLOCK)[1:]
    counted = [(found, _signature(block)) for block in blocks if (found := _COUNTED.search(block[:400]))]
    last = counted[-_AGAIN:]
    alike = len(last) == _AGAIN and len({signature for _, signature in last}) == 1
    if alike and last[-1][1] and not (last[-1][0]["source"] == "controller" and readiness(case.now).waiting_for):
        yield _looping(job, int(last[-1][0]["count"]), _last_error(blocks[-1]))


def _last_error(block: str) -> str:
    found = _ERROR.findall(block)
    return found[-1].strip() if found else ""


def _signature(block: str) -> str:
    """The error without what differs from try to try."""
    return re.sub(r"\d+|0x[0-9a-f]+|\([^()]*pid=[^()]*\)", "", _last_error(block)).strip()


def _looping(job: Job, count: int, error: str) -> Finding:
    return KINDS["train-restarts-without-end"].finding(
        f"Submission {job.id} is RUNNING, but Ray Train has failed {count} times, at last {_AGAIN} times with the "
        "same error, "
        f"and retries without a limit: {quoting.clip(error, 300)}",
        objects=(f"submission/{job.id}",),
        evidence=(
            quoting.log(f"driver/{job.id}", error),
            Evidence(object="Ray Train", text=f"{count} errors, maximum inf"),
        ),
        since=job.started_at,
    )


def _no_node_type(case: Case) -> Iterable[Finding]:
    """Ray's own autoscaler says that no worker group could ever hold it."""
    job = case.job
    if job is None or job.status.ended or case.cluster is None or not case.cluster.autoscaling:
        return
    found = _NO_TYPE.search(case.now.logs.get(f"driver/{job.id}", ""))
    if found:
        yield KINDS["no-node-type-fits"].finding(
            f"Submission {job.id} is {job.status} and asks for {found['need']}, which no worker group of RayCluster "
            f"{case.now.name} has on one Ray node: the autoscaler cannot make what it needs",
            objects=(f"submission/{job.id}",),
            evidence=(quoting.log(f"driver/{job.id}", quoting.line_of(found)),),
            since=job.started_at,
        )


RULES = (
    Rule(ids=("runtime-env-hangs",), depth=Depth.JOB, check=_setup_hangs, ends_jobs=True),
    Rule(ids=("runtime-env-setting-up",), depth=Depth.JOB, check=_setting_up, ends_jobs=True),
    Rule(ids=("train-restarts-without-end",), depth=Depth.JOB, check=_again_and_again, ends_jobs=True),
    Rule(ids=("no-node-type-fits",), depth=Depth.JOB, check=_no_node_type, ends_jobs=True),
)
