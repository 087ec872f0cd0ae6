"""A submission is posted once; what Ray says about its id is told apart from what it says about itself."""

from __future__ import annotations

import json

import pytest

from rayflight.backends.base import Submission
from rayflight.errors import ApiUnreachable, Conflict, RequestRejected
from rayflight.rayjobs.client import RayJobsClient
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard

SUBMISSION = Submission(id="rf-1", entrypoint="python train.py", metadata={"task": "x"})
TAKEN = (
    "Traceback (most recent call last):\n"
    '  File "/ray/dashboard/modules/job/job_head.py", line 469, in submit_job\n'
    "RuntimeError: Request failed with status code 400: Traceback (most recent call last):\n"
    "ValueError: Job with submission_id rf-1 already exists. Please use a different submission_id.\n.\n"
)


async def test_a_submission_carries_only_what_was_asked_for(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("POST", "/api/jobs/", Answer(body={"job_id": "rf-1", "submission_id": "rf-1"}))
    await jobs.submit(SUBMISSION)
    assert json.loads(dashboard.seen[0].body) == {
        "submission_id": "rf-1",
        "entrypoint": "python train.py",
        "runtime_env": {},
        "metadata": {"task": "x"},
    }


async def test_the_entrypoints_resources_are_handed_on(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("POST", "/api/jobs/", Answer(body={"submission_id": "rf-1"}))
    await jobs.submit(
        Submission(id="rf-1", entrypoint="x", num_cpus=0.5, num_gpus=0.0, memory_bytes=7, resources={"big": 1.0})
    )
    sent = json.loads(dashboard.seen[0].body)
    assert {key: value for key, value in sent.items() if key.startswith("entrypoint_")} == {
        "entrypoint_num_cpus": 0.5,
        "entrypoint_num_gpus": 0.0,
        "entrypoint_memory": 7,
        "entrypoint_resources": {"big": 1.0},
    }


async def test_an_id_that_exists_is_a_conflict_though_ray_says_500(
    dashboard: FakeDashboard, jobs: RayJobsClient
) -> None:
    dashboard.answer("POST", "/api/jobs/", Answer(status=500, body=TAKEN))
    with pytest.raises(Conflict, match="rf-1"):
        await jobs.submit(SUBMISSION)
    assert len(dashboard.seen) == 1


async def test_any_other_500_says_nothing_about_the_submission(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    text = (
        "Traceback (most recent call last):\nRuntimeError: No available agent to submit job, please try again later.\n"
    )
    dashboard.answer("POST", "/api/jobs/", Answer(status=500, body=text))
    with pytest.raises(ApiUnreachable, match="No available agent"):
        await jobs.submit(SUBMISSION)


async def test_a_refused_field_is_quoted_without_the_traceback(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    text = "Traceback (most recent call last):\n  ...\nTypeError: metadata values must be strings, got <class 'int'>\n"
    dashboard.answer("POST", "/api/jobs/", Answer(status=400, body=text))
    with pytest.raises(RequestRejected, match="metadata values must be strings") as caught:
        await jobs.submit(SUBMISSION)
    assert "Traceback" not in str(caught.value)


async def test_a_lost_answer_is_not_posted_again(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("POST", "/api/jobs/", Answer(drop=True))
    with pytest.raises(ApiUnreachable):
        await jobs.submit(SUBMISSION)
    assert len(dashboard.seen) == 1


async def test_stopping_hands_on_what_ray_says(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("POST", "/api/jobs/rf-1/stop", Answer(body={"stopped": True}), Answer(body={"stopped": False}))
    assert [await jobs.stop("rf-1"), await jobs.stop("rf-1")] == [True, False]


async def test_an_unknown_submission_needs_no_stop(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("POST", "/api/jobs/rf-1/stop", Answer(status=404, body="Job rf-1 does not exist"))
    assert await jobs.stop("rf-1") is False
