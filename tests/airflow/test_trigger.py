"""The trigger runs a step and carries its outcome; a triggerer's troubles never kill a training."""

import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from rayflight.airflow import access, outcomes, triggers
from rayflight.airflow.operators.submit import watching
from rayflight.airflow.triggers import StepTrigger
from rayflight.errors import ArchiveNotShared, ClusterGone
from rayflight.lifecycle.following import Follower, Outcome
from rayflight.specs import JobSpec, OnHang
from rayflight.states import JobStatus
from tests.world import World, flight


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    world.hold(session=world.ray.session)

    async def resolved(conn_id: str) -> str:
        assert conn_id == "kubernetes_default"
        return "an access"

    monkeypatch.setattr(access, "aaccess", resolved)
    monkeypatch.setattr(access, "backend", lambda _: world)
    return world


def trigger(folder: Path, step: str, stop_on_kill: bool = False, **arguments: Any) -> StepTrigger:
    (folder / "flight.json").write_text("{}")
    made = StepTrigger(
        step=step,
        flight=flight(archive=folder.as_uri()).to_dict(),
        conn_id="kubernetes_default",
        arguments=arguments,
        stop_on_kill=stop_on_kill,
    )
    path, kwargs = made.serialize()
    assert path == "rayflight.airflow.triggers.StepTrigger"
    return StepTrigger(**kwargs)


def following(world: World, folder: Path) -> StepTrigger:
    ref = world.clusters[0]
    world.ray.put("rf-1", JobStatus.RUNNING)
    return trigger(
        folder, "follow", stop_on_kill=True, cluster=ref.to_dict(), submission_id="rf-1", session=world.ray.session
    )


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "SETTLE_SECONDS", 0.0)


async def event(made: StepTrigger) -> dict[str, Any]:
    return (await anext(made.run())).payload  # type: ignore[no-any-return]


async def test_a_step_that_ends_well_hands_its_result_over(world: World, tmp_path: Path) -> None:
    made = following(world, tmp_path)
    world.ray.put("rf-1", JobStatus.SUCCEEDED)
    assert outcomes.result(await event(made))["status"] == "SUCCEEDED"


async def test_a_step_that_raises_hands_its_error_over(world: World, tmp_path: Path) -> None:
    world.clusters.clear()
    made = trigger(
        tmp_path, "ensure", stage="wait_ready", try_number=1, last_try=True, deadline="2026-12-01T11:00:00+00:00"
    )
    with pytest.raises(ClusterGone):
        outcomes.result(await event(made))


async def test_an_archive_that_is_not_shared_is_said_before_anything_else(world: World, tmp_path: Path) -> None:
    made = following(world, tmp_path)
    (tmp_path / "flight.json").unlink()
    with pytest.raises(ArchiveNotShared):
        outcomes.result(await event(made))


async def test_what_the_job_says_of_hangs_reaches_who_follows_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Follower] = []

    async def follow(self: Follower) -> Outcome:
        seen.append(self)
        return Outcome(submission_id="rf-1", status="SUCCEEDED")

    monkeypatch.setattr(Follower, "follow", follow)
    job = JobSpec.model_validate({"entrypoint": "x", "on_hang": "retry", "hang_after": "90s"})
    for said in (watching(job), {}):
        given = {"cluster": world.clusters[0].to_dict(), "submission_id": "rf-1", "session": "s", **said}
        await event(trigger(tmp_path, "follow", **given))
    assert [(it.on_hang, it.hang_after) for it in seen] == [
        (OnHang.RETRY, timedelta(seconds=90)),
        (OnHang.REPORT, None),
    ]


@pytest.mark.parametrize(
    ("states", "stopped"),
    [
        ({"run-1": {"flight.train": "deferred"}}, []),  # a frozen triggerer lost its triggers
        ({}, []),
        (RuntimeError("unreadable"), []),
        ({"run-1": {"flight.train": "failed"}}, ["rf-1"]),  # a person's will
        ({"run-1": {"flight.train": "success"}}, ["rf-1"]),
        ({"run-1": {"flight.train": None}}, ["rf-1"]),  # cleared
    ],
)
async def test_only_a_person_stops_a_submission(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: Any, stopped: list[str]
) -> None:
    def answer(**asked: Any) -> Any:
        assert asked["task_ids"] == ["flight.train"]
        if isinstance(states, Exception):
            raise states
        return states

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(answer))
    made = following(world, tmp_path)
    made._task_instance = SimpleNamespace(dag_id="train", run_id="run-1", task_id="flight.train", map_index=-1)
    await made.on_kill()
    assert world.ray.stopped == stopped


async def test_cleaning_up_touches_nothing(world: World, tmp_path: Path) -> None:
    await following(world, tmp_path).cleanup()
    assert (world.ray.stopped, world.deleted) == ([], [])


@pytest.mark.parametrize(
    ("status", "kind"), [(JobStatus.SUCCEEDED, "result"), (JobStatus.FAILED, "error")], ids=["a result", "an error"]
)
async def test_an_event_waits_until_the_scheduler_knows_that_the_task_deferred(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: JobStatus, kind: str
):
    monkeypatch.setattr(triggers, "SETTLE_SECONDS", 0.3)
    made = following(world, tmp_path)
    world.ray.put("rf-1", status)
    began = time.monotonic()
    assert kind in await event(made)
    assert time.monotonic() - began >= 0.3
