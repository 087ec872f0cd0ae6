"""A submission is followed to its real end: no lost line, no silence taken for a failure."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rayflight.archive import SegmentedLog
from rayflight.backends.base import ClusterRef
from rayflight.errors import ApiUnreachable, JobFailed
from rayflight.findings import Decision
from rayflight.lifecycle.following import Follower, Outcome
from rayflight.snapshot.model import PlacementGroup, Snapshot
from rayflight.states import JobStatus
from tests.made_up import head, snapshot, worker
from tests.world import World, flight

ID = "rf-job-1"


@pytest.fixture
def world() -> World:
    world = World()
    world.hold(session=world.ray.session)
    world.ray.put(ID, JobStatus.RUNNING)
    return world


def follower(world: World, folder: Path, **changes: object) -> Follower:
    return Follower(
        tools=world.tools(folder),
        flight=flight(),
        ref=world.clusters[0],
        submission_id=ID,
        session=world.ray.session,
        **changes,  # type: ignore[arg-type]
    )


async def follow(world: World, folder: Path) -> Outcome:
    return await follower(world, folder).follow()


async def archived(world: World, folder: Path) -> bytes:
    return await SegmentedLog(world.tools(folder).archive, f"attempt-1/driver/{ID}").read_all()


def prints(world: World, text: str) -> Callable[[], object]:
    return lambda: setattr(world.ray, "log", world.ray.log + text.encode())


def becomes(world: World, status: JobStatus, message: str = "") -> Callable[[], object]:
    return lambda: world.ray.put(ID, status, message=message)


async def test_lines_reach_the_task_log_and_the_archive_once(world: World, tmp_path: Path) -> None:
    world.steps = [prints(world, "one\ntw"), prints(world, "o\nthree"), becomes(world, JobStatus.SUCCEEDED)]
    await follow(world, tmp_path)
    assert await archived(world, tmp_path) == b"one\ntwo\nthree"
    assert [line for line in world.said if line in ("one", "two", "three")] == ["one", "two", "three"]


async def test_a_restarted_triggerer_goes_on_at_the_byte_where_it_stopped(world: World, tmp_path: Path) -> None:
    world.ray.log = b"one\ntwo\n"
    world.steps = []
    with pytest.raises(AssertionError, match="waits longer"):
        await follow(world, tmp_path)
    world.said.clear()
    world.steps = [prints(world, "three\n"), becomes(world, JobStatus.SUCCEEDED)]
    await follow(world, tmp_path)
    assert await archived(world, tmp_path) == b"one\ntwo\nthree\n"
    assert [line for line in world.said if line in ("one", "two", "three")] == ["one", "two", "three"]
    assert any("bytes 0 to 8 (again" in line for line in world.said)  # it may have been killed before it said them


async def test_of_a_flood_of_lines_the_task_log_shows_both_ends_and_the_archive_has_all(
    world: World, tmp_path: Path
) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    world.steps = [prints(world, text), becomes(world, JobStatus.SUCCEEDED)]
    await follow(world, tmp_path)
    shown = [line for line in world.said if line.startswith("line ")]
    assert (len(shown), shown[0], shown[-1]) == (1000, "line 0", "line 4999")
    assert any("4000 lines" in line and "archive" in line for line in world.said)
    assert await archived(world, tmp_path) == text.encode()


async def test_others_have_their_turn_while_many_lines_are_said(world: World, tmp_path: Path) -> None:
    turns = []

    async def others() -> None:
        while True:
            turns.append(sum(line.startswith("line ") for line in world.said))
            await asyncio.sleep(0)

    world.steps = [prints(world, "".join(f"line {n}\n" for n in range(900))), becomes(world, JobStatus.SUCCEEDED)]
    beside = asyncio.create_task(others())
    await follow(world, tmp_path)
    beside.cancel()
    assert max(after - before for before, after in pairwise(turns)) <= 50


async def test_the_result_carries_the_last_progress_report(world: World, tmp_path: Path) -> None:
    text = 'RAYFLIGHT_PROGRESS {"epoch": 1}\nRAYFLIGHT_PROGRESS {"epoch": 2, "accuracy": 0.97}\n'
    world.steps = [prints(world, text), becomes(world, JobStatus.SUCCEEDED)]
    assert (await follow(world, tmp_path)).metrics == {"epoch": 2, "accuracy": 0.97}


async def test_a_dashboard_that_is_silent_for_a_while_kills_nothing(world: World, tmp_path: Path) -> None:
    world.steps = [
        lambda: setattr(world.ray, "silent", True),
        *[lambda: None] * 130,
        lambda: setattr(world.ray, "silent", False),
        prints(world, "still here\n"),
        becomes(world, JobStatus.SUCCEEDED),
    ]
    await follow(world, tmp_path)
    assert await archived(world, tmp_path) == b"still here\n"
    assert sum("is followed on" in line for line in world.said) == 1
    assert [line.partition(":")[0] for line in world.said if "has not answered" in line] == [
        f"The cluster has not answered for {seconds} s" for seconds in (60, 120)
    ]


async def test_a_failed_training_fails_with_its_last_lines(world: World, tmp_path: Path) -> None:
    message = "Job entrypoint command failed with exit code 7, last available logs (truncated to 20,000 chars):\nboom"
    end = {"message": message, "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "driver_exit_code": 7}
    world.steps = [prints(world, "boom\n"), lambda: world.ray.put(ID, JobStatus.FAILED, **end)]
    with pytest.raises(JobFailed, match=r"7.*boom"):
        await follow(world, tmp_path)


async def test_a_job_gone_with_its_head_is_said_as_such(world: World, tmp_path: Path) -> None:
    world.steps = [world.ray.lose_head]
    with pytest.raises(JobFailed, match="is lost"):
        await follow(world, tmp_path)


async def test_a_cause_that_asks_for_another_cluster_condemns_this_one(world: World, tmp_path: Path) -> None:
    world.steps = [world.ray.lose_head]
    with pytest.raises(JobFailed) as raised:
        await follow(world, tmp_path)
    assert raised.value.diagnosis.cause is not None
    assert world.clusters[0].annotations["rayflight.io/condemned"] == raised.value.diagnosis.cause.id


async def test_a_verdict_is_kept_for_whoever_retries_all_the_same(world: World, tmp_path: Path) -> None:
    end = {"error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "driver_exit_code": 7, "message": "exit code 7"}
    world.steps = [lambda: world.ray.put(ID, JobStatus.FAILED, **end)]
    with pytest.raises(JobFailed):
        await follow(world, tmp_path)
    kept = await world.tools(tmp_path).archive.read(f"attempt-1/verdict-{ID}.json")
    assert kept is not None
    assert json.loads(kept) == {"cause": "entrypoint-failed", "decision": "fail"}


async def test_a_cause_of_the_users_condemns_nothing(world: World, tmp_path: Path) -> None:
    end = {"error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "driver_exit_code": 7, "message": "exit code 7"}
    world.steps = [lambda: world.ray.put(ID, JobStatus.FAILED, **end)]
    with pytest.raises(JobFailed):
        await follow(world, tmp_path)
    assert "rayflight.io/condemned" not in world.clusters[0].annotations


async def test_an_ended_job_counts_even_where_its_log_cannot_be_had(world: World, tmp_path: Path) -> None:
    async def unreadable(*_: object) -> bytes:
        raise ApiUnreachable("The agent is dead")

    world.ray.read_driver_log = unreadable  # type: ignore[assignment, method-assign]
    world.steps = [becomes(world, JobStatus.SUCCEEDED), *[lambda: None] * 90]
    assert (await follow(world, tmp_path)).status == "SUCCEEDED"
    assert any("from byte 0 on could not be read" in line for line in world.said)
    assert sum("does not answer" in line for line in world.said) == 1


async def test_a_deadline_stops_the_training_and_says_the_last_line(world: World, tmp_path: Path) -> None:
    world.steps = [prints(world, "epoch 1\n"), *[lambda: None] * 5]
    deadline = world.time.replace(second=3)
    with pytest.raises(JobFailed, match="epoch 1") as raised:
        await follower(world, tmp_path, deadline=deadline).follow()
    assert raised.value.decision is Decision.FAIL
    assert world.ray.stopped == [ID]


async def test_a_worker_that_died_is_looked_at_until_kubernetes_says_why(world: World, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("rayflight.lifecycle.following._BETWEEN_LOOKS", 0.0)
    end = {"driver_exit_code": 1, "message": "ray.exceptions.ActorUnavailableError: The actor is unavailable"}
    world.steps = [lambda: world.ray.put(ID, JobStatus.FAILED, **end)]
    looks = 0
    observe = world.observe

    async def later(ref: ClusterRef, *, ray: bool = True) -> Snapshot:
        nonlocal looks
        looks += ray and world.ray.table[ID].status is JobStatus.FAILED
        if looks == 3:
            ended = replace(
                worker(2), phase="Failed", reason="Evicted", message="The node was low on resource: memory."
            )
            world.seen = snapshot(pods=(head(), worker(1), ended))
        return await observe(ref, ray=ray)

    monkeypatch.setattr(world, "observe", later)
    with pytest.raises(JobFailed) as raised:
        await follow(world, tmp_path)
    assert raised.value.diagnosis.cause is not None
    assert (raised.value.diagnosis.cause.id, looks) == ("pod-evicted", 3)


async def test_a_job_that_can_never_finish_ends_also_where_its_log_cannot_be_had(world: World, tmp_path: Path):
    async def unreadable(*_: object) -> bytes:
        raise ApiUnreachable("The driver's node is gone")

    group = PlacementGroup(id="pg", state="PENDING", since="2026-12-01T10:00:00.000Z", bundles=({"GPU": 64.0},))
    world.ray.read_driver_log = unreadable  # type: ignore[assignment, method-assign]
    seen = snapshot()
    assert seen.ray is not None
    world.seen = replace(seen, ray=replace(seen.ray, placement_groups=(group,)))
    world.steps = [lambda: None] * 30
    with pytest.raises(JobFailed, match="can never finish"):
        await follow(world, tmp_path)
