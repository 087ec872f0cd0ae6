"""Workers that do not find a head that serves: Ray is asked although not all pods run, for only that tells why."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.errors import ClusterFailed, WaitTimedOut
from rayflight.lifecycle.ready import wait_ready
from rayflight.snapshot.model import Container, Pod, Snapshot
from tests.made_up import at, head, pending, snapshot, worker
from tests.world import World, flight


class Frugal(World):
    """Answers of Ray only where they are asked for."""

    asked = 0

    async def observe(self, ref: ClusterRef, *, ray: bool = True) -> Snapshot:
        self.asked += ray
        self.ray.silent = not ray
        return await super().observe(ref, ray=ray)


def seeking(number: int) -> Pod:
    init = Container(name="wait-gcs-ready", image="ray:2.60.0", init=True, state="running", started_at=at(0))
    return worker(number, phase="Pending", conditions=(), containers=(init, *worker(number).containers))


async def wait(world: World, folder: Path) -> None:
    ref = world.hold()
    await wait_ready(world.tools(folder), flight(), ref, deadline=world.time + timedelta(seconds=3))


async def test_a_worker_that_does_not_find_its_head_for_long_ends_the_wait(tmp_path: Path):
    world = Frugal()
    world.seen = snapshot(pods=(head(), seeking(1), seeking(2)), taken_at="2026-12-01T10:05:00.000Z")
    world.steps = [lambda: None] * 5
    with pytest.raises(ClusterFailed) as raised:
        await wait(world, tmp_path)
    assert raised.value.diagnosis.cause is not None
    assert raised.value.diagnosis.cause.id == "head-not-reachable"


async def test_ray_is_not_asked_while_pods_wait_for_a_place(tmp_path: Path):
    world = Frugal()
    world.seen = snapshot(pods=(head(), worker(1), pending(2, conditions=())), taken_at=at(5))
    world.steps = [lambda: None] * 5
    with pytest.raises(WaitTimedOut):
        await wait(world, tmp_path)
    assert world.asked == 0
