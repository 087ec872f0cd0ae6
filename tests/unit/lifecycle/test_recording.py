"""Each recipe records what it sees; the timeline goes on from task to task, and no recorder stops a flight."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rayflight.archive import Archive
from rayflight.backends.base import ClusterRef, LogFile
from rayflight.errors import ClusterGone
from rayflight.lifecycle import collect as collecting
from rayflight.lifecycle.collect import collect
from rayflight.lifecycle.flight import Tools
from rayflight.lifecycle.ready import wait_ready
from rayflight.lifecycle.teardown import tear_down
from rayflight.recorder import timeline
from tests.made_up import NAME, at, head, pending, ray, snapshot, worker
from tests.world import World, flight

FOLDER = f"attempt-1/{NAME}"


def born(world: World) -> None:
    world.seen = snapshot(pods=(head(), pending(1), pending(2)), ray=ray(head()), taken_at=at(2))


def ready(world: World) -> None:
    world.seen = snapshot(taken_at=at(20))


def gone(world: World) -> None:
    world.seen = replace(snapshot(taken_at=at(40)), cluster=None, pods=(), ray=None)
    world.left = {}


async def test_a_flight_leaves_one_timeline_over_all_its_tasks(tmp_path: Path):
    world = World()
    ref = world.hold()
    born(world)
    world.steps = [lambda: ready(world)]
    async with world.tools(tmp_path) as tools:
        await wait_ready(tools, flight(), ref, deadline=world.time + timedelta(minutes=5))
    async with world.tools(tmp_path) as tools:
        await collect(tools, flight())
    world.left = {ref.uid: ["pod x"]}
    world.steps = [lambda: gone(world)]
    async with world.tools(tmp_path) as tools:
        await tear_down(tools, flight(), failed=False, deadline=world.time + timedelta(minutes=5))
    told = [change.text for change in await timeline(tools.archive, FOLDER)]
    for text in (
        "pod flight-gpu-worker-1 appears: Pending",
        "pod flight-gpu-worker-1: Pending → Running",
        "pod flight-gpu-worker-1 is gone (was Running)",
        "RayCluster flight is gone (was there (uid cluster-uid))",
    ):
        assert told.count(text) == 1
    assert (tmp_path / FOLDER / "timeline.txt").read_text().count("\n") == len(told) + 1


async def test_pods_whose_logs_vanished_are_named_in_the_index(tmp_path: Path):
    world = World()
    world.hold()
    ready(world)
    async with world.tools(tmp_path) as tools:
        await collect(tools, flight())
        world.seen = snapshot(pods=(head(), worker(1)), taken_at=at(30))
        await collect(tools, flight())
    missing = json.loads((tmp_path / "attempt-1" / "index.json").read_text())["missing"]
    assert missing == [f"logs of pod flight-gpu-worker-2: it was gone at {at(30)} (was Running)"]


async def test_a_cluster_that_somebody_deleted_still_has_its_timeline(tmp_path: Path):
    world = World()
    ref = world.hold()
    born(world)
    world.steps = [lambda: gone(world)]
    async with world.tools(tmp_path) as tools:
        with pytest.raises(ClusterGone):
            await wait_ready(tools, flight(), ref, deadline=world.time + timedelta(minutes=5))
    world.clusters.clear()
    async with world.tools(tmp_path) as tools:
        await collect(tools, flight())
    assert "RayCluster flight is gone" in (tmp_path / FOLDER / "timeline.txt").read_text()


class NoTimeline(Archive):
    """A store that refuses timelines only."""

    async def write(self, name: str, data: bytes) -> None:
        if "/timeline" in name:
            raise OSError(28, "No space left on device")
        await super().write(name, data)


async def test_a_recorder_that_cannot_write_is_said_once_and_stands_in_the_index(tmp_path: Path):
    world = World()
    ref = world.hold()
    born(world)
    world.steps = [lambda: ready(world)]
    tools = Tools(backend=world, archive=NoTimeline(tmp_path, url="file:///x"), say=world.say, now=lambda: world.time)
    await wait_ready(tools, flight(), ref, deadline=world.time + timedelta(minutes=5))
    collected = await collect(tools, flight())
    assert len([text for text in world.said if text.startswith("the flight recorder")]) == 1
    assert [text for text in collected.missing if "No space left on device" in text]


class Slow(World):
    """Sixteen pods with many logs, one of which never ends."""

    most = 0
    open = 0

    async def logs(self, ref: ClusterRef) -> Sequence[LogFile]:
        return [
            LogFile(source=f"ray/pod-{pod}", name=f"pod-{pod}/{file}.log") for pod in range(16) for file in range(9)
        ]

    async def read_log(self, ref: ClusterRef, log: LogFile, *, limit: int) -> AsyncIterator[bytes]:
        self.open += 1
        self.most = max(self.most, self.open)
        if log.name == "pod-3/3.log":
            await asyncio.Event().wait()
        yield log.name.encode()
        self.open -= 1


@pytest.mark.timeout(20)
async def test_one_log_that_never_ends_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collecting, "_SECONDS", 1.0)
    world = Slow()
    world.hold()
    ready(world)
    collected = await collect(world.tools(tmp_path), flight())
    assert collected.missing == ("log ray/pod-3 pod-3/3.log: not read within 1 s",)
    assert len(list((tmp_path / FOLDER / "logs").rglob("*.log"))) == 16 * 9 - 1
    assert 1 < world.most <= 16
