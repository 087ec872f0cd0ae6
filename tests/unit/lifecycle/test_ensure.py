"""A retry makes sure: it uses what is still good, renews what is lost, and holds no GPUs while it waits for a retry."""

from datetime import timedelta
from pathlib import Path

import pytest

from rayflight.errors import ClusterGone, Diagnosed
from rayflight.lifecycle.ensure import Ensured, ensure, usable_cluster
from rayflight.states import Stage
from tests.made_up import foreign, head, pending, snapshot
from tests.world import World, flight


async def reach(
    world: World, folder: Path, *, stage: Stage = Stage.WAIT_READY, try_number: int = 1, last_try: bool = False
) -> Ensured:
    return await ensure(
        world.tools(folder), flight(), stage, try_number=try_number,
        deadline=world.time + timedelta(seconds=20), last_try=last_try,
    )  # fmt: skip


async def test_the_first_try_takes_the_attempts_own_cluster(tmp_path: Path) -> None:
    world = World()
    world.hold()
    assert (await reach(world, tmp_path)).ref.annotations["rayflight.io/session"] == world.ray.session


async def test_the_first_try_builds_no_cluster_behind_provisions_back(tmp_path: Path) -> None:
    with pytest.raises(ClusterGone, match="clear `provision`"):
        await reach(World(), tmp_path)


async def test_a_later_try_builds_the_next_cluster_under_a_name_of_its_own(tmp_path: Path) -> None:
    world = World()
    ensured = await reach(world, tmp_path, try_number=2)
    assert ensured.ref.owner is not None
    assert (ensured.ref.owner.attempt, ensured.ref.owner.renewal) == (1, 1)
    assert ensured.ref.name.endswith("-a1r1")


async def test_a_training_whose_head_was_lost_gets_a_new_cluster_and_the_old_one_goes(tmp_path: Path) -> None:
    world = World()
    world.hold(session="session_0")  # the head that became ready is another one than today's
    ensured = await reach(world, tmp_path, stage=Stage.TRAIN, try_number=2)
    assert world.deleted == ["cluster-uid"]
    assert ensured.ref.owner is not None
    assert ensured.ref.owner.renewal == 201


async def test_a_training_retry_keeps_a_cluster_that_is_still_the_same(tmp_path: Path) -> None:
    world = World()
    ref = world.hold(session=world.ray.session)
    assert await usable_cluster(world.tools(tmp_path), flight(), Stage.TRAIN, try_number=2) == ref


async def test_a_training_retry_renews_a_cluster_that_the_last_try_condemned(tmp_path: Path) -> None:
    world = World()
    world.hold(session=world.ray.session, condemned="gpu-unhealthy")
    ensured = await reach(world, tmp_path, stage=Stage.TRAIN, try_number=2)
    assert world.deleted == ["cluster-uid"]
    assert "rayflight.io/condemned" not in ensured.ref.annotations
    assert any("gpu-unhealthy" in line for line in world.said)


async def test_a_capacity_failure_releases_the_cluster_unless_it_was_the_last_try(tmp_path: Path) -> None:
    held = tuple(foreign(f"theirs-{name}", name, 4) for name in ("gpu-1", "gpu-2"))
    broken = snapshot(pods=(head(), pending(1), pending(2)), foreign_pods=held)
    world = World(seen=broken)
    world.hold()
    world.steps = [lambda: None] * 100
    with pytest.raises(Diagnosed):
        await reach(world, tmp_path, last_try=True)
    assert world.said[-1].startswith("Waiting")
    assert world.deleted == []
    with pytest.raises(Diagnosed):
        await reach(world, tmp_path)
    assert world.deleted == ["cluster-uid"]
