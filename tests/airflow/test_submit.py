"""SubmitRayJob in a task process: what it returns, whom it follows, and who may stop a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from rayflight.airflow import PlanFlight, SubmitRayJob, access
from rayflight.states import JobStatus
from tests.fake_context import a_context
from tests.world import World, flight

JOB = {"entrypoint": "python train.py"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """One ready cluster, reached over any connection."""
    world = World()
    world.hold(session=world.ray.session)

    async def resolved(conn_id: str) -> str:
        return conn_id

    monkeypatch.setattr(access, "aaccess", resolved)
    monkeypatch.setattr(access, "access", lambda conn_id: conn_id)
    monkeypatch.setattr(access, "backend", lambda _: world)
    return world


def submit(folder: Path, **given: Any) -> SubmitRayJob:
    (folder / "flight.json").write_text("{}")
    made = flight(archive=folder.as_uri()).to_dict()
    return SubmitRayJob(task_id="train", flight=made, deferrable=False, **{"job": JOB, **given})


def test_without_waiting_the_submission_is_handed_over_at_once(world: World, tmp_path: Path):
    result = submit(tmp_path, wait=False).execute(a_context(task_id="train"))
    assert [item.id for item in world.ray.submitted] == [result["submission_id"]]
    assert result["cluster"]["uid"] == world.clusters[0].uid


def test_a_training_that_this_try_submitted_before_is_followed_to_its_result(world: World, tmp_path: Path):
    first = submit(tmp_path, wait=False).execute(a_context(task_id="train"))
    world.ray.put(first["submission_id"], JobStatus.SUCCEEDED)
    result = submit(tmp_path).execute(a_context(task_id="train"))
    assert (result["submission_id"], result["status"]) == (first["submission_id"], "SUCCEEDED")
    assert len(world.ray.submitted) == 1


def test_the_storage_of_the_cluster_reaches_the_script_also_when_the_job_names_none(world: World, tmp_path: Path):
    task = submit(tmp_path, wait=False)
    assert isinstance(task.flight, dict)
    task.flight["spec"] = {**task.flight["spec"], "storage": {"claim": "checkpoints"}}
    task.execute(a_context(task_id="train"))
    assert world.ray.submitted[0].runtime_env["env_vars"]["RAYFLIGHT_STORAGE_PATH"].startswith("/mnt/rayflight/")


@pytest.mark.parametrize(
    ("states", "stopped"),
    [
        ({"run-1": {"train": "running"}}, []),  # a worker that is shut down, a timeout: the next try adopts it
        ({}, []),
        (RuntimeError("unreadable"), []),
        ({"run-1": {"train": "failed"}}, ["rf-1"]),  # a person's will
        ({"run-1": {"train": None}}, ["rf-1"]),  # cleared
    ],
)
def test_only_a_person_stops_a_training(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: Any, stopped: list[str]
):
    def answer(**asked: Any) -> Any:
        assert asked["task_ids"] == ["train"]
        if isinstance(states, Exception):
            raise states
        return states

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(answer))
    task = submit(tmp_path)
    task.followed = {
        "ti": a_context(task_id="train")["ti"],
        "cluster": world.clusters[0].to_dict(),
        "submission_id": "rf-1",
    }
    task.on_kill()
    assert world.ray.stopped == stopped


def test_a_task_that_submitted_nothing_stops_nothing(world: World, tmp_path: Path):
    submit(tmp_path).on_kill()
    assert world.ray.stopped == []


def test_what_is_likely_to_go_wrong_is_said_before_anything_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    group = {"name": "gpu", "replicas": 1, "gpus": 1, "memory": "16Gi", "shm_size": "1Gi"}
    shape = {"image": "train:1", "groups": [group]}
    PlanFlight(task_id="plan", cluster=shape, archive=tmp_path.as_uri()).execute(a_context())
    assert "Likely to go wrong: group 'gpu': object store of 4.8 GiB is larger than /dev/shm" in capsys.readouterr().out
