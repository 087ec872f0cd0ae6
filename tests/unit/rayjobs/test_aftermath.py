"""What vanishes with the head: Ray Train's runs and the actors. None at all is an answer, not a gap."""

from __future__ import annotations

import pytest

from rayflight.rayjobs.client import RayJobsClient
from rayflight.snapshot.model import Gap
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard

ACTORS = {"result": True, "data": {"result": {"total": 0, "result": []}}}
UNTRACKED = 'Train state data is not available. Please make sure Ray Train is running and tracking is "1".'


@pytest.mark.parametrize("text", [UNTRACKED, "Train is not installed. Please run `pip install ray[train]`."])
async def test_a_training_without_ray_train_left_no_run(dashboard: FakeDashboard, jobs: RayJobsClient, text: str):
    dashboard.answer("GET", "/api/train/v2/runs/v1", Answer(status=500, body=text))
    dashboard.answer("GET", "/api/v0/actors", Answer(body=ACTORS))
    assert await jobs.aftermath() == {"train_runs": {"train_runs": {}}, "actors": ACTORS}


async def test_any_other_failure_is_a_gap(dashboard: FakeDashboard, jobs: RayJobsClient):
    dashboard.answer("GET", "/api/train/v2/runs/v1", Answer(status=500, body="Internal Server Error"))
    dashboard.answer("GET", "/api/v0/actors", Answer(body=ACTORS))
    found = await jobs.aftermath()
    assert isinstance(found["train_runs"], Gap)
    assert "Internal Server Error" in found["train_runs"].why
