"""Looking from beside a process on a real Ray: its state, and its stack by py-spy or, where refused, by signal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rayflight.backends.base import Submission
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.probe import HOOK, STACKS_MARK, probe_package, probe_result, stacks_entrypoint
from rayflight.snapshot.hang import Sample, TrainingProcess
from rayflight.snapshot.stacks import read_dump
from tests.ray.waiting import ended, running, until

ACTOR = """
import os, signal, time, ray
ray.init()
@ray.remote(num_cpus=0)
class Trainer:
    def train(self, stop):
        if stop:
            os.kill(os.getpid(), signal.SIGSTOP)
        self.wait_for_ever()
    def wait_for_ever(self):
        time.sleep(1000)
trainers = [Trainer.options(name=f"trainer-{n}").remote() for n in range(2)]
ray.get([trainer.train.remote(n == 1) for n, trainer in enumerate(trainers)])
"""


async def hanging(jobs: RayJobsClient, name: str, **runtime_env: Any) -> tuple[TrainingProcess, ...]:
    """Two actors of one job: one sleeps, one is stopped."""
    await jobs.submit(Submission(id=name, entrypoint=f"python3 -c '{ACTOR}'", runtime_env=runtime_env))
    await running(jobs, name)
    job = await until(jobs, name, lambda job: bool(job.ray_job))
    for _ in range(200):
        found = await jobs.processes(job)
        if len(found) == 2 and all(it.name.startswith("trainer-") for it in found):
            return tuple(sorted(found, key=lambda it: it.name))
    raise AssertionError(f"the actors did not come: {found}")


async def from_beside(jobs: RayJobsClient, name: str, processes: tuple[TrainingProcess, ...]) -> list[dict[str, str]]:
    package = probe_package()
    uri = await jobs.upload_package(package.name, package.archive)
    ask = {processes[0].ray_node: [it.pid for it in processes]}
    entrypoint = stacks_entrypoint(ask, between=0, seconds=40)
    await jobs.submit(Submission(id=name, entrypoint=entrypoint, runtime_env={"working_dir": uri}))
    job = await ended(jobs, name)
    log = (await jobs.read_driver_log(job, 0, 1_000_000)).decode()
    result = probe_result(log, STACKS_MARK)
    assert result is not None, log
    return [result[it.ray_node][str(it.pid)][0] for it in processes]


async def test_a_ray_that_serves_no_stacks_says_so(jobs: RayJobsClient) -> None:
    (sleeper, _) = await hanging(jobs, "unserved")
    sample = await jobs.stack(sleeper)
    assert (sample.frames, "RAY_DASHBOARD_ENABLE_PROFILING" in sample.why) == ((), True)
    await jobs.stop("unserved")


async def test_from_beside_py_spy_and_proc_tell_both(jobs: RayJobsClient) -> None:
    processes = await hanging(jobs, "beside")
    slept, stopped = await from_beside(jobs, "look-1", processes)
    assert (slept["state"], slept["how"]) == ("S", "py-spy")
    assert "wait_for_ever" in slept["stack"]
    assert stopped == {"state": "T", "why": "it runs no instruction"}
    await jobs.stop("beside")


@pytest.fixture
def no_ptrace(ray_logs: Path) -> Iterator[None]:
    """py-spy is refused, as in a container without SYS_PTRACE: another program of that name says what it says then."""
    # Found first by `which`: the working directory of Ray's processes is not on their PATH, their HOME's is not either.
    refused = "#!/bin/sh\necho 'Error: Permission Denied: Try running again with elevated permissions' >&2\nexit 1\n"
    folder = ray_logs.parent.parent / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "py-spy").write_text(refused)
    (folder / "py-spy").chmod(0o755)
    yield
    (folder / "py-spy").unlink()


async def test_where_ptrace_is_refused_the_process_answers_a_signal(jobs: RayJobsClient, no_ptrace: None) -> None:
    package = probe_package()
    module = await jobs.upload_package(package.name, package.archive)
    processes = await hanging(jobs, "signalled", py_modules=[module], worker_process_setup_hook=HOOK)
    slept, stopped = await from_beside(jobs, "look-2", processes)
    assert (slept["state"], slept["how"]) == ("S", "faulthandler")
    sample = read_dump(slept["stack"], slept["how"])
    assert isinstance(sample, Sample)
    assert sample.frames[0].function == "wait_for_ever"
    assert stopped["state"] == "T"
    await jobs.stop("signalled")


async def test_who_does_not_listen_is_not_signalled(jobs: RayJobsClient, no_ptrace: None) -> None:
    processes = await hanging(jobs, "deaf")
    slept, _ = await from_beside(jobs, "look-3", processes)
    assert "Permission Denied" in slept["why"]
    assert "listens to no signal" in slept["why"]
    assert (await jobs.processes(await running(jobs, "deaf"))) != ()
    await jobs.stop("deaf")
