"""``on_fail``: a failing worker pod makes room for another, by UID and not without end; or the rows are said only."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.errors import VerificationFailed, WaitTimedOut
from rayflight.labels import REPLACED, VERIFIED_SESSION
from rayflight.lifecycle.flight import Flight
from rayflight.lifecycle.provision import provision
from rayflight.lifecycle.verify import verify
from rayflight.snapshot.model import Pod, Snapshot
from rayflight.states import JobStatus
from tests.made_up import head, ray_node, with_container, worker
from tests.unit.verification.probing import GIB, rank, result, snapshot_with_store, spec
from tests.world import World, flight

HEALTHY = snapshot_with_store()
OTHER = worker(3, node="gpu-2")


def seen(*workers: Pod, nodes: tuple[Pod, ...] | None = None) -> Snapshot:
    """These worker pods; Ray still knows ``nodes`` (by default the same)."""
    pods = (head(), *workers)
    known = tuple(ray_node(pod) for pod in (head(), *(workers if nodes is None else nodes)))
    stored = tuple(replace(it, resources={**it.resources, "object_store_memory": 0.6 * GIB}) for it in known)
    assert HEALTHY.ray
    return replace(HEALTHY, pods=pods, ray=replace(HEALTHY.ray, nodes=stored))


def ill(pod: Pod) -> Pod:
    return with_container(pod, "ray-worker", unhealthy_devices=(f"GPU-of-{pod.uid}",))


SICK = seen(worker(1), ill(worker(2)))
GOING = seen(worker(1), nodes=(worker(1), worker(2)))  # Kubernetes has let go, Ray not yet
MENDED = seen(worker(1), OTHER)
MENDED_RESULT = result(rank(0), rank(1, pod=OTHER.name, ray_node_id=ray_node(OTHER).id))


def probed(world: World, found: dict[str, Any]) -> Callable[[], None]:
    def end() -> None:
        world.ray.log = f"RAYFLIGHT_PROBE_RESULT {json.dumps(found)}\n".encode()
        for job in list(world.ray.table):
            world.ray.put(job, JobStatus.SUCCEEDED)

    return end


def shows(world: World, snapshot: Snapshot) -> Callable[[], None]:
    def look() -> None:
        world.seen = snapshot

    return look


def told(wish: str, **policy: Any) -> Flight:
    asked = spec(group={"spread": "none"}, verification=policy) if policy else spec(group={"spread": "none"})
    return flight(spec=asked.to_dict(), verify=True, on_fail=wish)


@pytest.fixture
def world() -> World:
    made = World(seen=SICK)
    made.hold()
    return made


async def verified(world: World, folder: Path, flown: Flight) -> ClusterRef:
    await verify(world.tools(folder), flown, world.clusters[0], deadline=world.time + timedelta(seconds=60))
    return world.clusters[0]


async def test_a_pod_with_a_bad_gpu_is_replaced_by_uid_and_the_cluster_verified_again(world: World, tmp_path: Path):
    world.steps = [
        probed(world, result()),
        lambda: None,
        shows(world, GOING),
        shows(world, MENDED),
        probed(world, MENDED_RESULT),
    ]
    ref = await verified(world, tmp_path, told("replace"))
    assert world.replaced == [("flight-gpu-worker-2", "worker-uid-2")]
    assert ref.annotations[REPLACED] == "flight-gpu-worker-2"
    assert ref.annotations[VERIFIED_SESSION] == world.ray.session
    kept = json.loads((tmp_path / "attempt-1/flight/replaced-flight-gpu-worker-2.json").read_text())
    assert (kept["node"], kept["checks"][0]["id"]) == ("gpu-2", "gpu-healthy")
    assert any(line.startswith("Replacing pod flight-gpu-worker-2 on node gpu-2") for line in world.said)


async def test_a_pod_that_ray_still_knows_is_not_gone(world: World, tmp_path: Path):
    world.steps = [probed(world, result()), shows(world, GOING), *[lambda: None] * 80]
    with pytest.raises(WaitTimedOut, match="flight-gpu-worker-2"):
        await verified(world, tmp_path, told("replace"))


async def test_so_many_are_replaced_and_no_more_also_after_a_restart(world: World, tmp_path: Path):
    await world.annotate(world.clusters[0], {REPLACED: "flight-gpu-worker-8"})
    world.steps = [probed(world, result())]
    with pytest.raises(VerificationFailed):
        await verified(world, tmp_path, told("replace", replacements=1))
    assert world.replaced == []
    assert "at most 1 worker pods of a cluster are replaced, and flight-gpu-worker-8 was" in world.said[-1]


async def test_more_bad_pods_than_may_be_replaced_are_no_single_bad_device(world: World, tmp_path: Path):
    world.seen = seen(ill(worker(1)), ill(worker(2)))
    world.steps = [probed(world, result())]
    with pytest.raises(VerificationFailed):
        await verified(world, tmp_path, told("replace", replacements=1))
    assert world.replaced == []


async def test_what_no_other_pod_can_mend_replaces_none(world: World, tmp_path: Path):
    world.seen = HEALTHY
    world.steps = [probed(world, result(rank(0), rank(1, devices=rank(0)["devices"])))]  # one device in two pods
    with pytest.raises(VerificationFailed):
        await verified(world, tmp_path, told("replace"))
    assert world.replaced == []
    assert "no other pod would mend it" in world.said[-1]


async def test_without_the_right_to_delete_pods_the_rows_stand(world: World, tmp_path: Path):
    world.refuses_to_delete.add(world.clusters[0].uid)
    world.steps = [probed(world, result())]
    with pytest.raises(VerificationFailed, match="Unhealthy"):
        await verified(world, tmp_path, told("replace"))
    assert "no permission" in world.said[-1]


@pytest.mark.parametrize("on_fail", ["fail", ""])
async def test_nothing_is_replaced_unasked(on_fail: str, world: World, tmp_path: Path):
    world.steps = [probed(world, result())]
    with pytest.raises(VerificationFailed):
        await verified(world, tmp_path, told(on_fail))
    assert world.replaced == []


async def test_a_warning_goes_on_and_says_every_row_that_failed(world: World, tmp_path: Path):
    world.steps = [probed(world, result())]
    ref = await verified(world, tmp_path, told("warn"))
    assert ref.annotations[VERIFIED_SESSION] == world.ray.session
    assert any(line.startswith("FAILED, and goes on (on_fail: warn): gpu-healthy") for line in world.said)


async def test_the_shape_says_what_follows_where_the_flight_does_not(world: World, tmp_path: Path):
    world.steps = [probed(world, result())]
    await verified(world, tmp_path, told("", on_fail="warn"))
    assert told("fail", on_fail="warn").when_unverified == "fail"


@pytest.mark.parametrize(
    ("on_fail", "name", "avoided"),
    [("replace", "kubernetes", ("gpu-2",)), ("fail", "kubernetes", ()), ("replace", "local", ())],
)
async def test_the_next_attempt_keeps_away_from_the_node_that_failed(
    on_fail: str, name: str, avoided: tuple[str, ...], world: World, tmp_path: Path
):
    world.steps = [probed(world, result())]
    with pytest.raises(VerificationFailed):
        await verified(world, tmp_path, told("fail"))
    world.name = name
    flown = told(on_fail)
    await provision(world.tools(tmp_path), replace(flown, owner=replace(flown.owner, attempt=2)))
    assert world.avoided == [avoided]
