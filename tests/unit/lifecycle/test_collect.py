"""Everything that can be had is in the archive before anything is deleted; what cannot is named."""

from collections.abc import AsyncIterator
from pathlib import Path

from rayflight.backends.base import ClusterRef, LogFile
from rayflight.errors import ApiUnreachable
from rayflight.lifecycle.collect import collect
from rayflight.states import JobStatus
from tests.world import World, flight

ID = "rf-job-1"


def flown() -> World:
    world = World()
    world.hold(session=world.ray.session)
    world.ray.put(ID, JobStatus.RUNNING, metadata={"rayflight_number": "1"})
    world.ray.log = b"one\ntwo\nhalf a li"
    return world


async def test_both_layers_and_the_driver_log_are_kept(tmp_path: Path) -> None:
    collected = await collect(flown().tools(tmp_path), flight())
    assert collected.missing == ()
    folder = tmp_path / "attempt-1" / "flight"
    assert (folder / "logs" / "head.log").read_bytes() == b"a line\n"
    assert (folder / "objects" / "pods.json").exists()
    assert (folder / "snapshot.json").exists()


async def test_lines_that_nobody_followed_are_carried_over(tmp_path: Path) -> None:
    world = flown()
    await collect(world.tools(tmp_path), flight())
    assert (tmp_path / f"attempt-1/logs/driver-{ID}.log").read_bytes() == b"one\ntwo\nhalf a li"
    assert "one" not in world.said


async def test_a_log_that_cannot_be_read_is_named_and_fails_nothing(tmp_path: Path) -> None:
    class Broken(World):
        async def read_log(self, ref: ClusterRef, log: LogFile, *, limit: int) -> AsyncIterator[bytes]:
            if log.name:
                raise ApiUnreachable("The kubelet does not answer")
            yield b""

    world = Broken()
    world.hold()
    collected = await collect(world.tools(tmp_path), flight())
    assert collected.missing == ("log pod head/ray-head head.log: The kubelet does not answer.",)


async def test_no_cluster_is_said_not_raised(tmp_path: Path) -> None:
    collected = await collect(World().tools(tmp_path), flight())
    assert collected.missing == ("no cluster is left to collect from",)
