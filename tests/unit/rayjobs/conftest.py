from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.transport import HttpxTransport
from tests.unit.rayjobs.fake_dashboard import FakeDashboard


@pytest.fixture
async def dashboard() -> AsyncIterator[FakeDashboard]:
    async with FakeDashboard() as server:
        yield server


@pytest.fixture
async def transport(dashboard: FakeDashboard) -> AsyncIterator[HttpxTransport]:
    async with HttpxTransport(dashboard.url) as direct:
        yield direct


@pytest.fixture
def jobs(transport: HttpxTransport) -> RayJobsClient:
    return RayJobsClient(transport)
