"""Which processes train, and what Ray's dashboard says of their stacks."""

from __future__ import annotations

from typing import Any

import pytest

from rayflight.errors import PermissionMissing
from rayflight.rayjobs.client import RayJobsClient
from rayflight.snapshot.hang import TrainingProcess
from rayflight.snapshot.model import Job
from rayflight.states import JobStatus
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard

JOB = Job(id="rf-1", ray_job="02000000", status=JobStatus.RUNNING, driver_node_id="head")
RANK = TrainingProcess(pid=7, ray_node="n1", name="RayTrainWorker")


def listed(*items: dict[str, Any]) -> Answer:
    return Answer(body={"data": {"result": {"result": list(items)}}})


def actor(kind: str, pid: int, **more: Any) -> dict[str, Any]:
    return {"class_name": kind, "state": "ALIVE", "pid": pid, "node_id": "n1", "name": "", **more}


async def test_ray_trains_ranks_are_the_training(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    gpu = {"GPU_group_0_ab": 1.0, "GPU_group_ab": 1.0, "CPU_group_ab": 2.0}
    dashboard.answer(
        "GET",
        "/api/v0/actors",
        listed(
            actor("TrainController", 5),
            actor("RayTrainWorker", 7, required_resources=gpu),
            actor("RayTrainWorker", 8, state="DEAD"),
            actor("Mine", 9),
        ),
    )
    (found,) = await jobs.processes(JOB)
    assert (found.pid, found.ray_node, found.gpus) == (7, "n1", 1.0)


async def test_without_ray_train_actors_and_tasks_are(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("GET", "/api/v0/actors", listed(actor("_StatsActor", 5), actor("Mine", 9, name="trainer-1")))
    task = {"state": "RUNNING", "type": "NORMAL_TASK", "name": "step", "worker_pid": 11, "node_id": "n2"}
    dashboard.answer("GET", "/api/v0/tasks", listed(task, {**task, "type": "ACTOR_TASK"}, {**task, "state": "FAILED"}))
    assert [(it.name, it.pid) for it in await jobs.processes(JOB)] == [("trainer-1", 9), ("task step", 11)]


@pytest.mark.parametrize("there", [actor("TrainController", 5), actor("Mine", 0, state="PENDING_CREATION")])
async def test_while_actors_are_to_come_nobody_is_asked(
    dashboard: FakeDashboard, jobs: RayJobsClient, there: dict[str, Any]
) -> None:
    dashboard.answer("GET", "/api/v0/actors", listed(there))
    assert await jobs.processes(JOB) == ()


@pytest.mark.parametrize(("info", "pids"), [({"pid": "44"}, [44]), (None, [])])
async def test_with_neither_it_is_the_driver(
    dashboard: FakeDashboard, jobs: RayJobsClient, info: dict[str, str] | None, pids: list[int]
) -> None:
    dashboard.answer("GET", "/api/v0/actors", listed())
    dashboard.answer("GET", "/api/v0/tasks", listed())
    dashboard.answer("GET", "/api/jobs/rf-1", Answer(body={"driver_info": info}))
    assert [it.pid for it in await jobs.processes(JOB)] == pids


async def test_a_stack_is_asked_for_by_node_and_process(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    text = 'Thread 7 (active): "MainThread"\n    step (train.py:3)\n'
    dashboard.answer("GET", "/worker/traceback", Answer(body=text))
    sample = await jobs.stack(RANK)
    assert (str(sample.frames[0]), sample.busy, sample.how) == ("step (train.py:3)", True, "py-spy")
    assert dashboard.seen[-1].query == {"pid": "7", "node_id": "n1", "native": "0", "subprocesses": "0"}


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (403, "Profiling is disabled by default for security reasons.", "RAY_DASHBOARD_ENABLE_PROFILING"),
        (500, "Failed to execute\nError: Permission Denied: Try running again", "ptrace"),
    ],
)
async def test_a_refusal_of_ray_is_an_answer(
    dashboard: FakeDashboard, jobs: RayJobsClient, status: int, text: str, why: str
) -> None:
    dashboard.answer("GET", "/worker/traceback", Answer(status=status, body=text))
    sample = await jobs.stack(RANK)
    assert (sample.frames, why in sample.why) == ((), True)


async def test_a_refusal_of_the_api_server_is_none_of_the_process(
    dashboard: FakeDashboard, jobs: RayJobsClient
) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "message": "services is forbidden", "code": 403}
    dashboard.answer("GET", "/worker/traceback", Answer(status=403, body=status))
    with pytest.raises(PermissionMissing):
        await jobs.stack(RANK)
