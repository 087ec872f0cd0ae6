from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rayflight.rayjobs.client import RayJobsClient
from rayflight.snapshot.model import Job
from rayflight.states import JobStatus


async def until(jobs: RayJobsClient, submission_id: str, condition: Callable[[Job], bool]) -> Job:
    job = None
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        job = await jobs.get(submission_id)
        if job is not None and condition(job):
            return job
        await asyncio.sleep(0.2)
    raise AssertionError(f"{submission_id} did not come so far: {job}")


async def ended(jobs: RayJobsClient, submission_id: str) -> Job:
    return await until(jobs, submission_id, lambda job: job.status.ended)


async def running(jobs: RayJobsClient, submission_id: str) -> Job:
    return await until(jobs, submission_id, lambda job: job.status is JobStatus.RUNNING)
