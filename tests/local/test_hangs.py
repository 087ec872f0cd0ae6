"""Trainings that hang, on a real Ray: who stands where is named, and what slow means is told from it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rayflight.archive import Archive
from rayflight.backends.base import ClusterRef, Submission
from rayflight.backends.local import LocalBackend
from rayflight.errors import JobFailed
from rayflight.findings import Decision, Finding
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.following import Follower
from rayflight.rayjobs.packages import pack
from rayflight.specs import ClusterSpec, OnHang
from tests.local.watching import gone, owner, ready

pytestmark = pytest.mark.timeout(420)

DRILLS = Path(__file__).parents[2] / "include" / "drills"
OWNER = owner("hangs")
TWO_PODS = {
    "image": "none",
    "simulated": True,
    "head": {"memory": "1Gi"},
    "groups": [{"name": "gpu", "replicas": 2, "gpus": 1, "cpu": 1, "memory": "1Gi"}],
}


@pytest.fixture(scope="module")
def shape() -> ClusterSpec:
    return ClusterSpec.parse(TWO_PODS, which="two pods")


@pytest.fixture
async def ref(backend: LocalBackend, shape: ClusterSpec) -> ClusterRef:
    """The same cluster for every test of this module: creating it again adopts it."""
    made = await backend.create(shape, OWNER, "default")
    await ready(backend, made)
    return made


class Flown:
    """One drill, followed to its end."""

    def __init__(self, backend: LocalBackend, ref: ClusterRef, shape: ClusterSpec, folder: Path) -> None:
        self.backend, self.ref, self.folder, self.said = backend, ref, folder, list[str]()
        self.flight = Flight(owner=OWNER, namespace="default", spec=shape.to_dict(), archive=folder.as_uri())

    async def follow(self, drill: str, options: str = "", *, on_hang: OnHang = OnHang.FAIL, after: float = 8) -> Any:
        package = pack(DRILLS)
        jobs = self.backend.jobs(self.ref)
        uri = await jobs.upload_package(package.name, package.archive)
        name = f"{drill}-{datetime.now(UTC):%H%M%S}"
        environment = {"working_dir": uri, "env_vars": {"RAY_COLOR_PREFIX": "0"}}
        await jobs.submit(Submission(id=name, entrypoint=f"python3 {drill}.py {options}", runtime_env=environment))
        archive = Archive(self.folder, url=self.folder.as_uri())
        async with Tools(backend=self.backend, archive=archive, say=self.say) as tools:
            _, session = await jobs.version()
            return await Follower(
                tools=tools, flight=self.flight, ref=self.ref, submission_id=name, session=session,
                deadline=datetime.now(UTC) + timedelta(seconds=300),  # a busy machine starts ranks slowly
                on_hang=on_hang, hang_after=timedelta(seconds=after),
            ).follow()  # fmt: skip

    async def cause(self, drill: str, **options: Any) -> Finding:
        with pytest.raises(JobFailed) as raised:
            await self.follow(drill, **options)
        assert raised.value.diagnosis.cause is not None
        return raised.value.diagnosis.cause

    def say(self, message: str, /, *args: object) -> None:
        self.said.append(message % args if args else message)
        print(f"{datetime.now(UTC):%H:%M:%S} {self.said[-1]}")

    def evidence(self) -> dict[str, Any]:
        (path,) = self.folder.glob("**/hangs/*.json")
        kept: dict[str, Any] = json.loads(path.read_text())
        return kept


@pytest.fixture
async def flown(backend: LocalBackend, ref: ClusterRef, shape: ClusterSpec, tmp_path: Path) -> Flown:
    return Flown(backend, ref, shape, tmp_path)


async def test_a_rank_that_starves_in_its_data_loader_is_named(flown: Flown, ref: ClusterRef) -> None:
    cause = await flown.cause("hang_data_loader")
    assert (cause.id, cause.decision) == ("rank-stuck", Decision.FAIL)
    assert cause.summary.startswith(f"rank 2 on pod {ref.name}-gpu-worker-")
    assert "waiting for input data, in DataLoader.__next__ (hang_data_loader.py:" in cause.summary
    assert "2 others wait for it in all_reduce" in cause.summary
    kept = flown.evidence()
    assert [len(process["samples"]) for process in kept["hang"]["processes"]] == [2, 2, 2]
    assert kept["diagnosis"]["cause"]["id"] == "rank-stuck"


async def test_a_rank_that_skips_a_collective_is_out_of_step(flown: Flown) -> None:
    cause = await flown.cause("hang_skipped_collective", on_hang=OnHang.RETRY)
    assert (cause.id, cause.decision) == ("collectives-out-of-step", Decision.RETRY_ELSEWHERE)
    assert cause.summary.startswith("rank 2 on pod ")
    assert "waiting in all_reduce, in Rank.train (hang_training.py:" in cause.summary
    assert "ranks 0, 1 wait in barrier, called at Rank.evaluate (hang_training.py:" in cause.summary


@pytest.mark.full
async def test_a_stopped_rank_is_told_by_py_spys_failure(flown: Flown) -> None:
    cause = await flown.cause("hang_stopped_rank", options="--ranks 2 --gpus-per-rank 1")
    assert cause.id == "rank-stopped"
    assert cause.summary.startswith("rank 1 on pod ")
    assert ", GPU 0 is stopped (state T); 1 other waits for it in barrier" in cause.summary


@pytest.mark.full
async def test_a_slow_rank_is_reported_and_left_alone(flown: Flown) -> None:
    outcome = await flown.follow("hang_data_loader", "--stall-seconds 35", on_hang=OnHang.REPORT)
    assert outcome.status == "SUCCEEDED"
    assert any("waiting for input data" in line for line in flown.said)
    assert any("goes on after" in line for line in flown.said)


async def test_nothing_of_it_is_left(backend: LocalBackend, ref: ClusterRef) -> None:
    await backend.delete(ref)
    await gone(backend, ref)
