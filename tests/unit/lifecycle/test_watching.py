"""While a training runs: what falls below the shape or falls ill is said once, and when it is good again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rayflight.findings import Check
from rayflight.lifecycle.following import Follower, Outcome
from rayflight.lifecycle.watching import Watch
from rayflight.snapshot.model import Snapshot
from rayflight.states import JobStatus
from tests.made_up import head, ray_node, snapshot, with_container, worker
from tests.world import SHAPE, World, flight

ID = "rf-job-1"
SICK = with_container(worker(2), "ray-worker", unhealthy_devices=("GPU-1",))
ILL = snapshot(pods=(head(), worker(1), SICK))
FEWER = snapshot(pods=(head(), worker(1)))


@pytest.fixture
def world() -> World:
    world = World()
    world.hold(session=world.ray.session)
    world.ray.put(ID, JobStatus.RUNNING)
    return world


def watched(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("Watch: ")]


async def follow(world: World, folder: Path, **policy: Any) -> Outcome:
    flown = flight(spec={**SHAPE, "verification": policy} if policy else SHAPE)
    tools = world.tools(folder)
    follower = Follower(tools=tools, flight=flown, ref=world.clusters[0], submission_id=ID, session=world.ray.session)
    return await follower.follow()


def shows(world: World, seen: Snapshot, seconds: int = 6) -> list[Callable[[], object]]:
    """From now on, until the follower has looked again."""
    return [lambda: setattr(world, "seen", seen), *[lambda: None] * (seconds - 1)]


def ends(world: World) -> Callable[[], object]:
    return lambda: world.ray.put(ID, JobStatus.SUCCEEDED)


async def test_an_ill_device_is_said_once_while_it_is_ill_and_stands_in_the_result(
    world: World, tmp_path: Path
) -> None:
    world.steps = [*shows(world, ILL, 12), ends(world)]
    outcome = await follow(world, tmp_path)
    (line,) = watched(world.said)
    assert line.startswith("Watch: gpu-healthy: pod flight-gpu-worker-2 on node gpu-2: Unhealthy: GPU-1")
    (row,) = outcome.to_dict()["watched"]
    assert (row["id"], row["facts"]["node"], row["until"]) == ("gpu-healthy", "gpu-2", None)
    assert json.loads((tmp_path / "attempt-1/flight/watch.json").read_text())["found"] == [row]


async def test_whoever_listens_is_told_when_it_falls_and_once(world: World, tmp_path: Path) -> None:
    told: list[str] = []

    async def tell(rows: Sequence[Check]) -> None:
        told.extend(row.id for row in rows)

    watch = Watch(world.tools(tmp_path), flight(), world.clusters[0], tell)
    for seen in (snapshot(), ILL, ILL, snapshot()):
        await watch.look(seen)
    assert told == ["gpu-healthy"]


async def test_what_heals_is_said_too(world: World, tmp_path: Path) -> None:
    world.steps = [*shows(world, ILL), *shows(world, snapshot()), ends(world)]
    outcome = await follow(world, tmp_path)
    assert watched(world.said)[1] == "Watch: good again: gpu-healthy: pod flight-gpu-worker-2 on node gpu-2"
    assert outcome.watched[0]["until"] is not None


async def test_fewer_ray_nodes_and_gpus_than_the_shape_has_are_said(world: World, tmp_path: Path) -> None:
    world.steps = [*shows(world, FEWER), ends(world)]
    await follow(world, tmp_path)
    nodes, gpus = sorted(watched(world.said), reverse=True)
    assert "2 ALIVE (expected at least 3 Ray nodes ALIVE, head included)" in nodes
    assert "1 GPU offered by ALIVE Ray nodes (expected at least 2 GPUs)" in gpus


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        ({"watch": False}, ILL),
        ({}, snapshot()),
        ({}, replace(snapshot(), ray=None)),  # a dashboard that is silent says nothing about nodes
        ({}, snapshot(ray=replace(FEWER.ray, nodes=(*(ray_node(it) for it in snapshot().pods),)))),  # type: ignore[type-var]
    ],
    ids=["not wanted", "healthy", "silent", "all there"],
)
async def test_nothing_is_said_or_written_unless_something_fell(
    policy: dict[str, Any], seen: Snapshot, world: World, tmp_path: Path
) -> None:
    world.steps = [*shows(world, seen), ends(world)]
    assert (await follow(world, tmp_path, **policy)).watched == ()
    assert watched(world.said) == []
    assert not (tmp_path / "attempt-1/flight/watch.json").exists()


async def test_a_restarted_triggerer_goes_on_from_the_archive_and_says_nothing_twice(
    world: World, tmp_path: Path
) -> None:
    for _ in range(2):
        watch = Watch(world.tools(tmp_path), flight(), world.clusters[0])
        await watch.look(ILL)
    assert len(watched(world.said)) == 1
    assert len(watch.found) == 1
