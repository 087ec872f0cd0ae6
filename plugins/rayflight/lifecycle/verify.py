"""Verifies a ready cluster on the device: asks both layers, runs the probe on every bundle, lets pure code judge.

What passed is noted on the cluster itself (annotation ``verified-session``): a head that is lost later has another
session, so an old verification never counts for a new head.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from rayflight.backends.base import ClusterRef, RayJobs, Submission
from rayflight.errors import ApiError, ApiUnreachable, Conflict, VerificationFailed
from rayflight.findings import Check
from rayflight.labels import VERIFIED_SESSION, digest
from rayflight.lifecycle.fleet import read_earlier, remember
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.replacing import replace_failing
from rayflight.lifecycle.submission import NUMBER, TASK, mine, submission_id
from rayflight.rayjobs.probe import probe_entrypoint, probe_package, probe_result
from rayflight.snapshot.model import Gap, Job, Snapshot
from rayflight.specs import ClusterSpec
from rayflight.states import Verdict
from rayflight.verification import blocking, diagnosis_from_checks, table, verify_all

_POLL = 0.5  # seconds; the Jobs API has no watch
_PODS_READY = timedelta(seconds=30)  # Ray says ALIVE about 6 s before Kubernetes says Ready
_PROBE_SECONDS = 90  # hard limit of the probe itself
_LOG_BYTES = 4 * 1024 * 1024
_TASK = "rayflight-verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One verification: the session it holds for, and every row of the matrix."""

    session: str
    checks: tuple[Check, ...]


async def verify(tools: Tools, flight: Flight, ref: ClusterRef, *, deadline: datetime) -> Verification:
    """Raises VerificationFailed with all rows when one failed, or could not be seen where it had to be.

    With ``on_fail: replace`` failing worker pods are replaced and all is verified again, at most so many times; with
    ``on_fail: warn`` the rows are said, and what failed forbids nothing.
    """
    while True:
        found, snapshot = await _look(tools, flight, ref, deadline)
        failed = blocking(found.checks)
        if not failed or flight.when_unverified == "warn":
            break
        if flight.when_unverified != "replace" or not await replace_failing(
            tools, flight, ref, snapshot, found.checks, deadline=deadline
        ):
            raise VerificationFailed(
                f"Verification failed in {len(failed)} of {len(found.checks)} checks",
                which=f"on {ref}",
                diagnosis=diagnosis_from_checks(found.checks),
                checks=found.checks,
            )
    for check in failed:
        tools.say("FAILED, and goes on (on_fail: warn): %s: %s: %s", check.id, check.subject, check.observed)
    await tools.backend.annotate(ref, {VERIFIED_SESSION: found.session})
    passed = f"{len(failed)} FAILED of" if failed else "passed all"
    tools.say("Verified %s in session %s: %s %d checks", ref, found.session, passed, len(found.checks))
    return found


async def _look(tools: Tools, flight: Flight, ref: ClusterRef, deadline: datetime) -> tuple[Verification, Snapshot]:
    """One verification: ask both layers, run the probe, judge, keep."""
    api = tools.backend.jobs(ref)
    _, session = await api.version()
    job = await _probe(tools, flight, ref, api)
    # The past is read while the probe runs, and costs no time of its own.
    job, earlier = await asyncio.gather(_ended(tools, ref, api, job, deadline), _measured_before(tools, ref))
    log = (await api.read_driver_log(job, 0, _LOG_BYTES)).decode(errors="replace") if job else ""
    snapshot = await _as_a_stranger(flight, api, await _settled(tools, ref))
    result = probe_result(log)
    checks = verify_all(flight.cluster_spec, snapshot, result, probe_log=log[-2000:], earlier=earlier)
    await _keep(tools, flight, ref, checks, result)
    await remember(tools, flight, ref, snapshot, checks, result)
    for line in table.lines(checks):
        tools.say("%s", line)
    for check in checks:
        if check.verdict == Verdict.WARNED:
            tools.say("Warning: %s: %s: %s. Next: %s", check.id, check.subject, check.observed, check.next_step)
    return Verification(session=session, checks=checks), snapshot


async def _measured_before(tools: Tools, ref: ClusterRef) -> Mapping[str, Any]:
    """By GPUs of the nodes on which the worker pods stand, before this verification adds its own figures."""
    try:
        seen = await tools.backend.observe(ref, ray=False)
    except ApiError:  # the verification's own look says what is wrong
        return {}
    return await read_earlier(tools, {pod.node for pod in seen.workers() if pod.node})


async def _as_a_stranger(flight: Flight, api: RayJobs, snapshot: Snapshot) -> Snapshot:
    """Where the shape asks for a token: what a request without it is told."""
    if flight.cluster_spec.auth != "token" or snapshot.ray is None:
        return snapshot
    try:
        return replace(snapshot, ray=replace(snapshot.ray, without_token=await api.status_without_token()))
    except ApiError as error:
        return replace(snapshot, gaps=(*snapshot.gaps, Gap(source="ray.without_token", why=str(error))))


async def _probe(tools: Tools, flight: Flight, ref: ClusterRef, api: RayJobs) -> Job | None:
    """Submit the probe, or adopt the one that an interrupted verification left running."""
    jobs = mine(await api.list(), _TASK)
    running = [job for job in jobs if not job.status.ended]
    if running:
        return running[-1]
    number = len(jobs) + 1
    package = probe_package()
    submission = Submission(
        id=submission_id(ref, _TASK, number),
        entrypoint=probe_entrypoint(expectation(flight.cluster_spec)),
        runtime_env={
            "working_dir": await api.upload_package(package.name, package.archive),
            "env_vars": _environment(flight),
        },
        metadata={
            TASK: digest(_TASK),
            NUMBER: str(number),
            "dag_id": flight.owner.dag_id,
            "run_id": flight.owner.run_id,
        },
    )
    try:
        await api.submit(submission)
    except Conflict:  # a racing verification of the same cluster: its probe serves both
        tools.say("Adopting probe %s", submission.id)
    return await api.get(submission.id)


def expectation(spec: ClusterSpec) -> Mapping[str, Any]:
    """What the probe must find: one bundle per GPU, and one per worker pod that has none."""
    return {
        "gpus": spec.gpus,
        "cpu_nodes": sum(group.pods for group in spec.groups if not group.gpus),
        "placement_seconds": 30,
        "total_seconds": _PROBE_SECONDS,
    }


def _environment(flight: Flight) -> dict[str, str]:
    """Each rank writes to the training's own storage, so that a bad mount is seen before the training."""
    storage = flight.cluster_spec.storage
    return {"RAYFLIGHT_STORAGE_PATH": storage.under(flight.owner.flight_digest)} if storage else {}


async def _ended(tools: Tools, ref: ClusterRef, api: RayJobs, job: Job | None, deadline: datetime) -> Job | None:
    """Wait for the probe; at the deadline whatever it printed is judged (a missing result is a failed row)."""
    async for _ in tools.backend.changes(ref, at_least_every=_POLL):
        try:
            job = await api.get(job.id) if job else None
        except ApiUnreachable as error:
            tools.say("The probe is still awaited: %s", error)
        if job is None or job.status.ended or tools.now() >= deadline:
            return job
    return job


async def _settled(tools: Tools, ref: ClusterRef) -> Snapshot:
    """The picture once Kubernetes, too, calls every pod Ready, or after a grace."""
    until = tools.now() + _PODS_READY
    async for _ in tools.backend.changes(ref, at_least_every=_POLL):
        snapshot = await tools.observe(ref)
        pods = [pod for pod in snapshot.pods if pod.deleting_since is None]
        if (pods and all(pod.ready for pod in pods)) or tools.now() >= until:
            return snapshot
    raise AssertionError("changes() never ends")


async def _keep(
    tools: Tools, flight: Flight, ref: ClusterRef, checks: tuple[Check, ...], result: Mapping[str, Any] | None
) -> None:
    """The matrix, and what it was judged by: figures are compared over time."""
    await tools.archive.write_json(
        f"{flight.folder}/{ref.name}/verification.json",
        {"cluster": ref.to_dict(), "checks": [asdict(check) for check in checks], "probe": result},
    )
