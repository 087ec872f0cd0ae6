"""The client against a real Ray: submit once, meet one's own id again, stop, read the state."""

from __future__ import annotations

import asyncio

import pytest

from rayflight.backends.base import Submission
from rayflight.errors import Conflict, RequestRejected
from rayflight.rayjobs.client import RayJobsClient
from rayflight.states import JobStatus
from tests.ray.waiting import ended, running


async def test_an_exit_code_comes_back_with_the_metadata(jobs: RayJobsClient) -> None:
    await jobs.submit(Submission(id="exit7", entrypoint="sh -c 'echo failing; exit 7'", metadata={"task": "t"}))
    job = await ended(jobs, "exit7")
    assert (job.status, job.driver_exit_code, job.error_type) == (JobStatus.FAILED, 7, "JOB_ENTRYPOINT_COMMAND_ERROR")
    assert job.metadata["task"] == "t"


async def test_an_id_is_taken_once_and_can_be_adopted(jobs: RayJobsClient) -> None:
    submission = Submission(id="once", entrypoint="echo here", metadata={"rayflight_fingerprint": "f"})
    await jobs.submit(submission)
    with pytest.raises(Conflict, match="once"):
        await jobs.submit(submission)
    assert (await ended(jobs, "once")).status is JobStatus.SUCCEEDED
    with pytest.raises(Conflict):
        await jobs.submit(submission)
    found = [job for job in await jobs.list() if job.id == "once"]
    assert [job.metadata["rayflight_fingerprint"] for job in found] == ["f"]


async def test_two_racing_submitters_make_one_job(jobs: RayJobsClient) -> None:
    submission = Submission(id="race", entrypoint="echo here")
    answers = await asyncio.gather(jobs.submit(submission), jobs.submit(submission), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "NoneType"]
    assert (await ended(jobs, "race")).status is JobStatus.SUCCEEDED


async def test_an_unknown_submission_is_none(jobs: RayJobsClient) -> None:
    assert await jobs.get("never-made") is None
    assert await jobs.stop("never-made") is False


async def test_what_ray_cannot_read_is_rejected(jobs: RayJobsClient) -> None:
    with pytest.raises(RequestRejected, match="strings"):
        await jobs.submit(Submission(id="bad", entrypoint="x", metadata={"number": 1}))  # type: ignore[dict-item]


async def test_a_running_job_is_stopped(jobs: RayJobsClient) -> None:
    await jobs.submit(Submission(id="long", entrypoint="sleep 300"))
    await running(jobs, "long")
    assert await jobs.stop("long") is True
    assert (await ended(jobs, "long")).status is JobStatus.STOPPED


async def test_the_state_has_no_gaps_on_a_healthy_head(jobs: RayJobsClient) -> None:
    version, session = await jobs.version()
    ray = await jobs.state()
    assert (ray.version, ray.session, ray.gcs_healthy, ray.gaps) == (version, session, True, ())
    assert [(node.is_head, node.resources["GPU"]) for node in ray.alive()] == [(True, 2.0)]
