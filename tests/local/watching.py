"""Waiting for what a real cluster does, and finding its processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from rayflight.backends.base import ClusterRef
from rayflight.backends.local import LocalBackend
from rayflight.keeper import processes
from rayflight.labels import Owner
from rayflight.snapshot.model import Job, Snapshot
from rayflight.snapshot.readiness import readiness

SECONDS = 90.0  # machines that run tests are busy


def owner(run: str) -> Owner:
    return Owner(airflow="tests", dag_id="local", run_id=run, group="flight")


async def until(what: str, done: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not await done():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        await asyncio.sleep(0.3)


async def ready(backend: LocalBackend, ref: ClusterRef, *, other_than: str | None = "") -> Snapshot:
    """The snapshot in which the cluster was ready, in another session than that."""
    seen: list[Snapshot] = []

    async def done() -> bool:
        seen.append(await backend.observe(ref))
        found = readiness(seen[-1])
        return found.ready and found.session != other_than

    try:
        await until(f"{ref} is ready", done)
    except AssertionError as error:
        raise AssertionError(f"{error}; it waits for {readiness(seen[-1]).waiting_for}") from None
    return seen[-1]


async def ended(backend: LocalBackend, ref: ClusterRef, submission: str) -> Job:
    found: list[Job | None] = []

    async def done() -> bool:
        found.append(await backend.jobs(ref).get(submission))
        return found[-1] is not None and found[-1].status.ended

    await until(f"{submission} has ended", done)
    assert found[-1] is not None
    return found[-1]


async def gone(backend: LocalBackend, ref: ClusterRef, seconds: float = 30.0) -> None:
    async def done() -> bool:
        return not await backend.remains(ref)

    await until(f"nothing is left of {ref}", done, seconds)
    assert processes.members(ref.uid) == []
    assert folders_of(ref) == []


def of_tree(ref: ClusterRef, tree: str, name: str) -> psutil.Process:
    """The process of that name in the tree whose name ends so."""
    for process in processes.members(ref.uid):
        pod = process.environ().get(processes.POD, "")
        if pod.endswith(tree) and process.name() == name:
            return process
    raise AssertionError(f"no {name} in tree {tree}: {[(p.pid, p.name()) for p in processes.members(ref.uid)]}")


def keeper(ref: ClusterRef) -> psutil.Process:
    """The cluster's keeper: it has the mark, and belongs to no tree."""
    (found,) = [item for item in processes.members(ref.uid) if "rayflight.keeper.main" in item.cmdline()]
    return found


def folders_of(ref: ClusterRef) -> list[Path]:
    return list(Path("/tmp").glob(f"rf-{ref.uid[:8]}*"))


def network_of(pid: int | str) -> Path:
    return Path(f"/proc/{pid}/ns/net").readlink()


def interfaces_of(pid: int) -> list[str]:
    """Network interfaces as that process sees them."""
    return [line.split(":")[0].strip() for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]]
