"""The janitor deletes what no living run owns, and leaves alone whatever Airflow does not know for certain."""

from datetime import timedelta

import pytest

from rayflight.lifecycle.janitor import Order, RunState, Swept, sweep
from tests.world import World


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
