"""A follower remembers who was where a minute ago, and the seconds in which a pod says why it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rayflight.errors import JobFailed
from rayflight.lifecycle.following import Follower
from rayflight.lifecycle.memory import Memory
from rayflight.snapshot.model import Condition, Snapshot
from rayflight.states import JobStatus
from tests.made_up import NODES, head, ray_node, snapshot, with_container, worker
from tests.world import World, flight

ID = "rf-job-1"


def at(second: int, **changes: object) -> Snapshot:
    return snapshot(taken_at=f"2026-12-01T10:{second // 60:02d}:{second % 60:02d}.000Z", **changes)


def test_it_knows_how_it_was_up_to_a_minute_ago_and_keeps_few_moments():
    memory = Memory()
    for second in range(0, 300, 2):
        memory.keep(at(second))
    assert memory.before is not None
    assert memory.before.taken_at == "2026-12-01T10:04:00.000Z"
    assert len(memory.moments) <= 4


def test_a_pod_on_its_way_out_is_remembered_for_a_minute():
    memory = Memory()
    going = at(10, pods=(head(deleting_since="2026-12-01T10:00:10Z"),))
    for seen in (at(0), going, at(12), at(60)):
        memory.keep(seen)
    assert [then.taken_at for then in memory.leavings] == [going.taken_at]
    memory.keep(at(80))
    assert memory.leavings == ()


def follower(world: World, folder: Path) -> Follower:
    return Follower(
        tools=world.tools(folder), flight=flight(), ref=world.clusters[0], submission_id=ID, session=world.ray.session
    )


async def test_a_head_that_was_evicted_is_told_so_after_it_is_gone(tmp_path: Path):
    world = World()
    world.hold(session=world.ray.session)
    world.ray.put(ID, JobStatus.RUNNING)
    why = Condition(
        type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", since="2026-12-01T10:00:02.000Z"
    )
    now = "2026-12-01T10:00:02.000Z"

    def evict() -> None:
        leaving = head(deleting_since=now, conditions=(*head().conditions, why))
        world.seen = snapshot(pods=(leaving, worker(1), worker(2)), taken_at=now)

    def gone() -> None:
        world.ray.lose_head()
        world.seen = snapshot(pods=(head(uid="another"), worker(1), worker(2)), taken_at="2026-12-01T10:00:09.000Z")

    world.steps = [*[lambda: None] * 2, evict, *[lambda: None] * 3, gone]
    with pytest.raises(JobFailed, match="evicted") as raised:
        await follower(world, tmp_path).follow()
    assert raised.value.diagnosis.cause is not None
    assert raised.value.diagnosis.cause.id == "pod-evicted"


async def test_a_head_that_is_gone_is_told_while_the_next_one_does_not_answer_yet(tmp_path: Path):
    world = World()
    world.hold(session=world.ray.session)
    world.ray.put(ID, JobStatus.RUNNING)

    def lose() -> None:
        world.ray.silent = True
        world.seen = snapshot(pods=(head(uid="another", phase="Pending", conditions=()), worker(1), worker(2)))

    world.steps = [*[lambda: None] * 2, lose, *[lambda: None] * 3]
    with pytest.raises(JobFailed, match="is lost") as raised:
        await follower(world, tmp_path).follow()
    assert raised.value.diagnosis.cause is not None
    assert raised.value.diagnosis.cause.id == "head-pod-lost"


async def test_a_head_whose_gcs_outlives_it_is_waited_for_unless_the_driver_ran_in_it(tmp_path: Path):
    world = World()
    world.hold(session=world.ray.session)
    kept = follower(world, tmp_path)
    kept.memory.keep(snapshot())
    world.seen = snapshot(pods=(head(uid="another"),))
    assert await kept._head_is_gone()
    spec = {**kept.flight.spec, "gcs_fault_tolerance": {"redis_address": "redis://redis:6379"}}
    kept.flight = replace(kept.flight, spec=spec)
    assert not await kept._head_is_gone()
    for place, gone in ((worker(1), False), (head(), True)):
        kept.driver_node_id = ray_node(place).id
        assert await kept._head_is_gone() == gone


def test_a_moment_of_both_layers_is_kept_soon_after_one_of_kubernetes_alone():
    memory = Memory()
    memory.keep(snapshot(ray=None, taken_at="2026-12-01T10:00:01.000Z"))
    memory.keep(snapshot(taken_at="2026-12-01T10:00:04.000Z"))
    assert memory.before is not None
    assert memory.before.ray is not None
    assert memory.was_head(ray_node(head()).id)
    assert not memory.was_head(ray_node(worker(1)).id)


async def test_a_worker_that_left_a_drained_node_is_told_with_the_node_after_it_is_gone(tmp_path: Path):
    world = World()
    world.hold(session=world.ray.session)
    world.ray.put(ID, JobStatus.RUNNING)
    cordoned = tuple(replace(item, unschedulable=item.name == "gpu-2") for item in NODES)

    def fail() -> None:
        world.ray.put(ID, JobStatus.FAILED, message="the actor died", driver_exit_code=1)
        world.seen = snapshot(pods=(head(), worker(1)), nodes=cordoned)

    world.steps = [*[lambda: None] * 6, fail]
    with pytest.raises(JobFailed) as raised:
        await follower(world, tmp_path).follow()
    assert raised.value.diagnosis.cause is not None
    assert raised.value.diagnosis.cause.id == "node-drained"


def test_a_pod_that_changes_is_noticed_once():
    memory, pods = Memory(), (head(), worker(1), worker(2))
    assert not memory.moved(snapshot(pods=pods)), "nothing is known to have changed"
    assert not memory.moved(snapshot(pods=pods))
    for changed in (
        pods[:2],
        (*pods[:2], worker(2, deleting_since="2026-12-01T10:00:50Z")),
        (*pods[:2], worker(2, phase="Failed")),
        (*pods[:2], with_container(worker(2), "ray-worker", restarts=1)),
    ):
        assert memory.moved(snapshot(pods=changed))
        assert not memory.moved(snapshot(pods=changed))
