"""A sweep has at most so many clusters with pods; the others wait their turn in the order of their creation."""

from dataclasses import replace
from pathlib import Path

import pytest

from rayflight.errors import InvalidSpec
from rayflight.lifecycle.provision import provision
from rayflight.lifecycle.turns import ahead, queued, take_turn
from rayflight.specs import ClusterSpec
from tests.world import OWNER, SHAPE, World, flight


def sweep(world: World, count: int) -> None:
    for index in range(count):
        world.hold(replace(OWNER, map_index=index), uid=f"uid-{index}")


def test_the_oldest_run_first() -> None:
    world = World()
    sweep(world, 4)
    assert [ahead(ref, world.clusters, 2) for ref in world.clusters] == [0, 0, 1, 2]


async def test_a_landing_lets_the_next_one_fly(tmp_path: Path) -> None:
    world = World()
    sweep(world, 3)
    third = world.clusters[2]
    assert "1 cluster(s) of this run must land first" in await take_turn(
        world.tools(tmp_path), flight(at_once=2), third
    )
    await world.delete(world.clusters[0])
    await take_turn(world.tools(tmp_path), flight(at_once=2), third)
    assert world.resumed == ["uid-2"]


async def test_a_cluster_of_a_sweep_is_created_without_pods(tmp_path: Path) -> None:
    world = World()
    await provision(world.tools(tmp_path), flight(at_once=1))
    assert world.specs[0].extra["suspend"] is True


def test_a_second_queue_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="at_once"):
        queued(ClusterSpec.parse({**SHAPE, "queue": "team"}), 2)
