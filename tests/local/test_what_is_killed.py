"""`kill -9` of anything leaves nothing behind after the next start; others on the machine are not disturbed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rayflight.backends.base import Submission
from rayflight.backends.local import LocalBackend
from rayflight.backends.local_access import LocalAccess
from rayflight.keeper import processes
from rayflight.rayjobs.transport import HttpxTransport
from rayflight.snapshot.readiness import readiness
from tests.local.watching import ended, folders_of, gone, keeper, owner, ready, until


@pytest.mark.timeout(400)
async def test_two_at_once_one_of_them_killed_do_not_disturb_each_other(backend, spec, access):
    stranger = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [sys.executable, "-c", "import time; time.sleep(300)", "raylet"]
    )
    first, second = [await backend.create(spec, owner(run), "default") for run in ("first", "second")]
    seen = [await ready(backend, ref) for ref in (first, second)]
    await backend.jobs(second).submit(Submission(id="goes-on", entrypoint="sh -c 'sleep 12; echo went on'"))

    os.kill(keeper(first).pid, signal.SIGKILL)

    async def noticed() -> bool:
        return (await backend.observe(first)).cluster is None

    await until("a cluster without its keeper is gone", noticed, 10)
    (left,) = [ref for ref in await backend.find("default", "") if ref.uid == first.uid]
    await backend.delete(left)
    await asyncio.sleep(0.2)
    for process in enders(first.name):
        os.kill(process, signal.SIGKILL)
    async with LocalBackend(access) as another:  # the next start goes on where the ender was killed
        await gone(another, first)

    job = await ended(backend, second, "goes-on")
    assert b"went on" in await backend.jobs(second).read_driver_log(job, 0, 100_000)
    assert readiness(await backend.observe(second)).session == readiness(seen[1]).session
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()

    shutil.rmtree(access.folder / "default" / second.name)  # somebody removed the record: its processes are strays
    async with LocalBackend(access):
        assert processes.members(second.uid) == []
        assert folders_of(second) == []


def enders(cluster: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if "rayflight.keeper.ender" in words and any(cluster in word for word in words):
                found.append(int(entry.name))
    return found


async def test_without_a_fence_the_token_is_asked_for(spec, tmp_path):
    access = LocalAccess.from_extras({"folder": str(tmp_path / "open"), "network": "host"}, home=tmp_path)
    async with LocalBackend(access) as backend:
        warnings = await backend.preflight(spec, "default")
        assert any("listen on all interfaces" in text and "token" in text for text in warnings)
        ref = await backend.create(spec, owner("open"), "default")
        try:
            await ready(backend, ref)
            url = backend.dashboard_url(ref)
            assert url is not None
            async with HttpxTransport(url) as nobody:
                assert (await nobody.request("GET", "/api/jobs/")).status == 401
            assert await backend.jobs(ref).list() == ()
            log = access.folder / "default" / ref.name / "keeper.log"
            assert "listens on all interfaces, port" in log.read_text()
        finally:
            await backend.delete(ref)
            await gone(backend, ref)
