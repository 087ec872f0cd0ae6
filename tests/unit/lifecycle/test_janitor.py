"""The janitor deletes what no living run owns, and leaves alone whatever Airflow does not know for certain."""

from dataclasses import replace
from datetime import timedelta

import pytest

from rayflight.errors import TeardownIncomplete
from rayflight.lifecycle.janitor import Order, RunState, Swept, sweep
from tests.world import OWNER, World


@pytest.fixture
def world() -> World:
    world = World()
    world.hold()
    world.time += timedelta(minutes=10)
    return world


async def run(world: World, state: RunState, *, dry_run: bool = False, release: tuple[str, ...] = ()) -> list[Swept]:
    async def ask(owner: object) -> RunState:
        return state

    order = Order(airflow="test", namespaces=("team-a",), dry_run=dry_run, release=release)
    return await sweep(world, order, ask=ask, now=world.time, say=world.say)


@pytest.mark.parametrize(
    ("state", "deleted"),
    [
        (RunState.ALIVE, []),
        (RunState.ENDED, ["cluster-uid"]),
        (RunState.ABSENT, ["cluster-uid"]),
        (RunState.UNKNOWN, []),
    ],
)
async def test_only_what_no_run_owns_is_deleted(world: World, state: RunState, deleted: list[str]) -> None:
    await run(world, state)
    assert world.deleted == deleted


async def test_a_dry_run_says_what_it_would_delete_and_deletes_nothing(world: World) -> None:
    rows = await run(world, RunState.ABSENT, dry_run=True)
    assert [row.action for row in rows] == ["would delete"]
    assert world.deleted == []


async def test_a_cluster_too_young_to_be_known_to_airflow_is_kept(world: World) -> None:
    world.time -= timedelta(minutes=9)
    await run(world, RunState.ABSENT)
    assert world.deleted == []


async def test_a_kept_cluster_stays_until_its_time_has_passed(world: World) -> None:
    await world.annotate(world.clusters[0], {"rayflight.io/keep-until": "2026-12-01T12:00:00+00:00"})
    await run(world, RunState.ENDED)
    assert world.deleted == []
    world.time += timedelta(hours=3)
    await run(world, RunState.ENDED)
    assert world.deleted == ["cluster-uid"]


async def test_a_kept_cluster_goes_at_once_when_a_person_releases_it(world: World) -> None:
    await world.annotate(world.clusters[0], {"rayflight.io/keep-until": "2026-12-01T12:00:00+00:00"})
    await run(world, RunState.ENDED, release=(world.clusters[0].name,))
    assert world.deleted == ["cluster-uid"]


async def test_a_kept_cluster_whose_time_cannot_be_read_is_not_deleted(world: World) -> None:
    await world.annotate(world.clusters[0], {"rayflight.io/keep-until": "tomorrow"})
    await run(world, RunState.ENDED)
    assert world.deleted == []


async def test_a_released_cluster_that_is_not_there_is_said(world: World) -> None:
    await run(world, RunState.ALIVE, release=("rf-other",))
    assert "nothing to release: no cluster rf-other of this Airflow in team-a" in world.said


async def test_one_cluster_that_cannot_be_deleted_does_not_save_the_others(world: World) -> None:
    world.hold(replace(OWNER, run_id="run-2"), uid="second")
    world.refuses_to_delete = {"cluster-uid"}
    world.time += timedelta(minutes=10)
    with pytest.raises(TeardownIncomplete, match="no permission"):
        await run(world, RunState.ABSENT)
    assert world.deleted == ["second"]
