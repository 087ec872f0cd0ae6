from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rayflight.rayjobs.agent import read_range
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.transport import HttpxTransport
from tests.ray.fenced_ray import AGENT, DASHBOARD, head, own_network, why_not


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ray)


@pytest.fixture(scope="session")
def ray_logs() -> Iterator[Path]:
    if reason := why_not():
        pytest.skip(reason)
    # Not pytest's tmp_path: Ray's socket names must stay short.
    with tempfile.TemporaryDirectory(prefix="rf-", ignore_cleanup_errors=True) as folder, own_network():  # noqa: SIM117
        with head(Path(folder), gpus=2) as logs:
            yield logs


@pytest.fixture
async def jobs(ray_logs: Path) -> AsyncIterator[RayJobsClient]:
    addresses = (f"http://127.0.0.1:{DASHBOARD}", f"http://127.0.0.1:{AGENT}")
    async with HttpxTransport(addresses[0]) as dashboard, HttpxTransport(addresses[1]) as agent:

        async def read_file(node_id: str, filename: str, offset: int, limit: int) -> bytes | None:
            return await read_range(agent, filename, offset, limit)

        yield RayJobsClient(dashboard, read_file)


@pytest.fixture
async def only_dashboard(ray_logs: Path) -> AsyncIterator[RayJobsClient]:
    async with HttpxTransport(f"http://127.0.0.1:{DASHBOARD}") as dashboard:
        yield RayJobsClient(dashboard)
