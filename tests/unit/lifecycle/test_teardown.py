"""A teardown deletes every attempt, proves it, and says how long GPUs were held; the policy may keep a failed one."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.errors import TeardownIncomplete, TokenRefused
from rayflight.labels import Owner
from rayflight.lifecycle.provision import provision
from rayflight.lifecycle.teardown import Landing, tear_down
from rayflight.snapshot.model import Condition
from tests.made_up import START, head, snapshot, worker
from tests.world import OWNER, World, flight

SCHEDULED = Condition(type="PodScheduled", status="True", since=START)


@pytest.fixture
def world() -> World:
    pods = tuple(replace(pod, conditions=(*pod.conditions, SCHEDULED)) for pod in (head(), worker(1), worker(2)))
    world = World(seen=snapshot(pods=pods))
    world.hold()
    return world


async def land(world: World, folder: Path, *, failed: bool = False, **changes: object) -> Landing:
    deadline = world.time + timedelta(seconds=30)
    return await tear_down(world.tools(folder), flight(**changes), failed=failed, deadline=deadline)


async def test_every_attempt_and_renewal_of_the_flight_is_deleted(world: World, tmp_path: Path) -> None:
    world.hold(replace(OWNER, attempt=2), uid="second")
    world.hold(replace(OWNER, attempt=2, renewal=201), uid="renewed")
    await land(world, tmp_path)
    assert sorted(world.deleted) == ["cluster-uid", "renewed", "second"]


async def test_another_flights_cluster_is_not_touched(world: World, tmp_path: Path) -> None:
    world.hold(Owner(airflow="test", dag_id="train", run_id="run-2", group="flight"), uid="foreign")
    await land(world, tmp_path)
    assert world.deleted == ["cluster-uid"]


async def test_it_returns_only_when_the_last_pod_is_gone(world: World, tmp_path: Path) -> None:
    world.left = {"cluster-uid": ["pod head (Terminating)"]}
    world.steps = [lambda: None, world.left.clear]
    landing = await land(world, tmp_path)
    assert landing.seconds == 2
    assert world.said.count("Still there: pod head (Terminating)") == 1


async def test_what_is_left_at_the_deadline_is_named(world: World, tmp_path: Path) -> None:
    world.left = {"cluster-uid": ["pod head (finalizer x/y)"]}
    world.steps = [lambda: None] * 40
    with pytest.raises(TeardownIncomplete, match="finalizer x/y"):
        await land(world, tmp_path)


async def test_gpu_seconds_run_from_the_pods_node_until_the_pod_was_seen_gone(world: World, tmp_path: Path) -> None:
    world.time += timedelta(seconds=60)
    world.left = {"cluster-uid": ["pods"]}

    def vanish() -> None:
        world.left.clear()
        world.seen = replace(world.seen, pods=())

    world.steps = [vanish]
    landing = await land(world, tmp_path)
    assert landing.gpu_seconds == 2 * 61


async def test_a_failed_flight_is_kept_until_a_stated_time(world: World, tmp_path: Path) -> None:
    policy = {"mode": "keep_on_failure", "keep_for": "2h"}
    landing = await land(world, tmp_path, failed=True, teardown=policy)
    assert world.deleted == []
    assert world.clusters[0].annotations["rayflight.io/keep-until"] == "2026-12-01T12:00:00+00:00"
    assert "port-forward" in landing.how_to_reach


async def test_a_successful_flight_is_never_kept(world: World, tmp_path: Path) -> None:
    await land(world, tmp_path, failed=False, teardown={"mode": "keep_on_failure", "keep_for": "2h"})
    assert world.deleted == ["cluster-uid"]


async def test_nothing_there_is_a_proper_landing(tmp_path: Path) -> None:
    assert (await land(World(), tmp_path)).clusters == ()


@pytest.mark.parametrize("asked", [False, True])
async def test_a_cluster_that_was_never_asked_for_needs_no_server_that_answers(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    async def refuse(*_: object) -> list[ClusterRef]:
        raise TokenRefused("The API server refused the credentials")

    if asked:
        world.clusters.clear()
        await provision(world.tools(tmp_path), flight())
    monkeypatch.setattr(world, "find", refuse)
    if asked:
        with pytest.raises(TokenRefused):
            await land(world, tmp_path)
    else:
        assert (await land(world, tmp_path)).clusters == ()
        assert any("never asked for a cluster" in line for line in world.said)
