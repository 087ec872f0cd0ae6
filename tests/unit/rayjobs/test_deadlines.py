"""Every call has a deadline, and a passed one says nothing about the job."""

from __future__ import annotations

import pytest

from rayflight.errors import ApiUnreachable
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.transport import HttpxTransport
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard


async def test_a_dashboard_without_gcs_that_never_answers_is_given_up(
    dashboard: FakeDashboard, transport: HttpxTransport
) -> None:
    dashboard.answer("GET", "/api/jobs/", Answer(hang=True))
    with pytest.raises(ApiUnreachable, match=r"no answer within 0\.05 s"):
        await RayJobsClient(transport, read_timeout=0.05).list()


async def test_a_dashboard_that_nobody_serves_is_unreachable() -> None:
    async with HttpxTransport("http://127.0.0.1:9") as nobody:
        with pytest.raises(ApiUnreachable, match=r"127\.0\.0\.1:9"):
            await RayJobsClient(nobody).version()


async def test_the_token_travels_in_rays_own_header(dashboard: FakeDashboard) -> None:
    dashboard.answer("GET", "/api/version", Answer(body={"ray_version": "2.60.0", "session_name": "session_1"}))
    async with HttpxTransport(dashboard.url, token="secret") as transport:
        assert await RayJobsClient(transport).version() == ("2.60.0", "session_1")
    assert dashboard.seen[0].headers["X-Ray-Authorization"] == "Bearer secret"
