"""A silence is looked into when it is due, twice; what becomes of the job is what the job says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rayflight.errors import ApiUnreachable, JobFailed
from rayflight.findings import Decision
from rayflight.lifecycle.collect import collect
from rayflight.lifecycle.following import Follower
from rayflight.snapshot.hang import Sample
from rayflight.specs import OnHang
from rayflight.states import JobStatus
from tests.examples.hangs import COMPUTING, LOADER, reducing
from tests.made_up import ray, worker
from tests.world import World, flight

ID = "rf-job-1"
RANKS = "(ip={}, pid=11) world_rank=0, local_rank=0, node_rank=0\n(ip={}, pid=12) world_rank=1, local_rank=0, x\n"
PODS = (worker(1), worker(2))
NODES = ray(*PODS).nodes


@pytest.fixture
def world() -> World:
    world = World()
    world.hold(session=world.ray.session)
    world.ray.put(ID, JobStatus.RUNNING)
    world.ray.log = RANKS.format(NODES[0].ip, NODES[1].ip).encode()
    stands(world, LOADER)
    return world


def stands(world: World, *samples: Sample) -> None:
    """Rank 0 reduces, rank 1 stands there; the last sample stays."""
    rest = list(samples)
    world.ray.stacks = {
        (NODES[0].id, 11): reducing,
        (NODES[1].id, 12): lambda: rest.pop(0) if len(rest) > 1 else rest[0],
    }


def follower(world: World, folder: Path, **changes: Any) -> Follower:
    told = {"on_hang": OnHang.FAIL, "hang_after": timedelta(seconds=30), **changes}
    return Follower(
        tools=world.tools(folder), flight=flight(), ref=world.clusters[0], submission_id=ID,
        session=world.ray.session, **told,
    )  # fmt: skip


def prints(world: World, text: str) -> Callable[[], object]:
    return lambda: setattr(world.ray, "log", world.ray.log + text.encode())


def report(world: World, number: int) -> Callable[[], object]:
    return prints(world, f'RAYFLIGHT_PROGRESS {{"step": {number}}}\n')


def nothing(seconds: int) -> list[Callable[[], object]]:
    return [lambda: None] * seconds


def kept_in(folder: Path) -> Any:
    (path,) = folder.glob("attempt-1/hangs/*.json")
    return json.loads(path.read_text())["hang"]["processes"]


async def test_a_stuck_rank_ends_the_job_and_its_stacks_are_kept(world: World, tmp_path: Path) -> None:
    world.steps = nothing(60)
    with pytest.raises(JobFailed, match=r"rank 1 on pod .*waiting for input data.*1 other waits for it") as raised:
        await follower(world, tmp_path).follow()
    assert raised.value.decision is Decision.FAIL
    assert world.ray.stopped == [ID]
    assert len(world.steps) == 60 - 38  # 30 s of silence, 8 s between the samples
    first, second = kept_in(tmp_path)
    assert (first["rank"], second["rank"], second["pod"], second["gpu"]) == (0, 1, PODS[1].name, "0")
    assert second["node"] == "gpu-2"
    assert len(second["samples"]) == 2


async def test_ranks_that_asked_for_no_gpu_are_named_without_one(world: World, tmp_path: Path) -> None:
    world.ray.gpus_per_process = 0.0
    side = world.seen.ray
    assert side is not None
    no_gpus = tuple(replace(node, resources={"CPU": 1.0}) for node in side.nodes)
    world.seen = replace(world.seen, ray=replace(side, nodes=no_gpus))
    world.steps = nothing(60)
    with pytest.raises(JobFailed):
        await follower(world, tmp_path).follow()
    assert {process["gpu"] for process in kept_in(tmp_path)} == {""}


async def test_a_retry_says_so_and_condemns_the_cluster(world: World, tmp_path: Path) -> None:
    world.steps = nothing(60)
    with pytest.raises(JobFailed) as raised:
        await follower(world, tmp_path, on_hang=OnHang.RETRY).follow()
    assert raised.value.decision is Decision.RETRY_ELSEWHERE
    assert world.clusters[0].annotations["rayflight.io/condemned"] == "rank-stuck"


async def test_who_comes_after_the_stop_says_the_same(world: World, tmp_path: Path) -> None:
    """A triggerer that is restarted in that moment, and the collection of logs: nobody blames a person."""
    world.steps = nothing(60)
    with pytest.raises(JobFailed):
        await follower(world, tmp_path).follow()
    world.ray.put(ID, JobStatus.STOPPED)
    world.steps = nothing(5)
    with pytest.raises(JobFailed, match="waiting for input data") as raised:
        await follower(world, tmp_path).follow()
    assert raised.value.decision is Decision.FAIL
    collected = await collect(world.tools(tmp_path), flight())
    assert collected.diagnosis["cause"]["id"] == "rank-stuck"


async def test_a_report_leaves_the_job_alone_and_says_when_it_goes_on(world: World, tmp_path: Path) -> None:
    end = lambda: world.ray.put(ID, JobStatus.SUCCEEDED)  # noqa: E731
    world.steps = [*nothing(45), prints(world, "on\n"), *nothing(3), end, *nothing(2)]
    await follower(world, tmp_path, on_hang=OnHang.REPORT).follow()
    assert world.ray.stopped == []
    assert sum("waiting for input data" in line for line in world.said) == 1
    assert f"{ID} goes on after 46 s of silence" in world.said


async def test_a_hang_that_lasts_is_told_once_and_then_in_short(world: World, tmp_path: Path) -> None:
    world.steps = [*nothing(75), lambda: world.ray.put(ID, JobStatus.SUCCEEDED), *nothing(2)]
    await follower(world, tmp_path, on_hang=OnHang.REPORT).follow()
    assert sum("waiting for input data" in line for line in world.said) == 1
    assert "no line of the driver for 68 s: still rank-stuck" in world.said


async def test_no_stack_is_asked_for_while_lines_come(world: World, tmp_path: Path) -> None:
    world.steps = [prints(world, "a line\n"), *nothing(20)] * 5 + [lambda: world.ray.put(ID, JobStatus.SUCCEEDED)]
    await follower(world, tmp_path).follow()
    assert world.ray.asked_for_stacks == 0


async def test_lines_of_ray_are_no_progress_once_the_training_reports(world: World, tmp_path: Path) -> None:
    reports = [step for number in range(5) for step in (report(world, number), *nothing(1))]
    world.steps = [*reports, *[prints(world, "(autoscaler) resized\n")] * 60]
    with pytest.raises(JobFailed, match=r"no training report for \d+ s, its usual step takes 2 s"):
        await follower(world, tmp_path).follow()


def gpus_show(world: World, percent: int) -> Callable[[], object]:
    side = world.seen.ray
    assert side is not None
    used = tuple(replace(node, gpu_use=() if node.is_head else (percent,)) for node in side.nodes)
    return lambda: setattr(world, "seen", replace(world.seen, ray=replace(side, nodes=used)))


async def test_gpus_that_fall_idle_are_a_sign_though_lines_come(world: World, tmp_path: Path) -> None:
    lines = [prints(world, "still here\n")] * 60
    world.steps = [gpus_show(world, 97), *lines[:10], gpus_show(world, 0), *lines]
    with pytest.raises(JobFailed, match=r"all GPUs idle for \d+ s"):
        await follower(world, tmp_path).follow()


async def test_gpus_that_never_did_anything_are_no_sign(world: World, tmp_path: Path) -> None:
    end = lambda: world.ray.put(ID, JobStatus.SUCCEEDED)  # noqa: E731
    world.steps = [gpus_show(world, 0), *[prints(world, "still here\n")] * 60, end, *nothing(2)]
    await follower(world, tmp_path).follow()
    assert world.ray.asked_for_stacks == 0


async def test_without_a_stated_time_the_runs_own_pace_counts(world: World, tmp_path: Path) -> None:
    watch = follower(world, tmp_path, hang_after=None).hang
    assert watch.threshold == timedelta(minutes=30)
    watch.steps.extend([2.0, 2.0, 2.0])
    assert watch.threshold == timedelta(minutes=10)
    watch.steps.extend([120.0] * 9)
    assert watch.threshold == timedelta(minutes=20)


async def test_a_rank_that_moves_is_slow_and_looked_at_again_later(world: World, tmp_path: Path) -> None:
    stands(world, *COMPUTING, LOADER)
    world.steps = nothing(100)
    with pytest.raises(JobFailed, match="rank 1"):
        await follower(world, tmp_path).follow()
    assert any("still moves" in line for line in world.said)
    assert len(world.steps) == 100 - 68  # 30 + 8 s, and again after twice the time


async def test_a_dashboard_that_cannot_list_processes_is_asked_again(world: World, tmp_path: Path) -> None:
    async def refuses(*_: object) -> tuple[()]:
        raise ApiUnreachable("Cannot list the actors")

    well = world.ray.processes
    world.ray.processes = refuses  # type: ignore[assignment, method-assign]
    world.steps = [*nothing(35), lambda: setattr(world.ray, "processes", well), *nothing(60)]
    with pytest.raises(JobFailed, match="rank 1"):
        await follower(world, tmp_path).follow()
    assert sum("could not be looked into" in line for line in world.said) == 1


async def test_while_there_is_nobody_to_ask_nothing_is_concluded(world: World, tmp_path: Path) -> None:
    there, world.ray.stacks = world.ray.stacks, {}
    world.steps = [*nothing(65), lambda: setattr(world.ray, "stacks", there), *nothing(60)]
    with pytest.raises(JobFailed, match="rank 1"):
        await follower(world, tmp_path).follow()
    assert sum("no process of this training is there" in line for line in world.said) == 1
    assert len(world.steps) == 126 - 98  # 30 s of silence, twice 30 until it is asked again, 8 between the samples


async def test_a_deadline_in_a_hang_names_the_hang(world: World, tmp_path: Path) -> None:
    world.steps = nothing(60)
    deadline = world.time + timedelta(seconds=50)
    with pytest.raises(JobFailed, match="waiting for input data") as raised:
        await follower(world, tmp_path, on_hang=OnHang.REPORT, deadline=deadline).follow()
    assert raised.value.decision is Decision.FAIL
    (rest,) = raised.value.diagnosis.consequences
    assert (rest.id, rest.consequence_of) == ("training-out-of-time", ("rank-stuck",))


async def test_what_gave_no_stack_is_looked_at_from_beside(world: World, tmp_path: Path) -> None:
    stands(world, Sample(why="py-spy may not look"))
    answer = {NODES[1].id: {"12": [{"state": "T", "why": "it runs no instruction"}] * 2}}
    submit = world.ray.submit

    async def runs(submission: Any) -> None:
        await submit(submission)
        world.ray.put(submission.id, JobStatus.SUCCEEDED)
        world.ray.log = b"RAYFLIGHT_STACKS_RESULT " + json.dumps(answer).encode()

    world.ray.submit = runs  # type: ignore[method-assign]
    world.steps = nothing(60)
    with pytest.raises(JobFailed, match=r"rank 1 on pod .* is stopped \(state T\)"):
        await follower(world, tmp_path).follow()
    (asked,) = world.ray.submitted
    assert f'{{"{NODES[1].id}": [12]}}' in asked.entrypoint
    assert replace(asked).num_cpus is None
