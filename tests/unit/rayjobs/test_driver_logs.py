"""A driver log is read by byte range where an agent serves it, and out of the whole file where none does."""

from __future__ import annotations

import dataclasses

import pytest

from rayflight.errors import ApiUnreachable
from rayflight.rayjobs.agent import read_range
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.transport import HttpxTransport
from rayflight.snapshot.model import Job
from rayflight.states import JobStatus
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard, kube_status

JOB = Job(id="rf-1", status=JobStatus.RUNNING, driver_node_id="4a51")
FILE = "/logs/job-driver-rf-1.log"


async def test_a_range_is_asked_for_and_handed_on(dashboard: FakeDashboard, transport: HttpxTransport) -> None:
    dashboard.answer("GET", FILE, Answer(status=206, body=b"3456"))
    assert await read_range(transport, "job-driver-rf-1.log", 3, 4) == b"3456"
    assert dashboard.seen[0].headers["Range"] == "bytes=3-6"


@pytest.mark.parametrize(
    ("answer", "block"),
    [
        (Answer(body=b"0123456789"), b"3456"),
        (Answer(status=416), b""),
        (Answer(status=404, body="404: Not Found"), b""),
    ],
    ids=["the range was ignored", "nothing new yet", "no file yet"],
)
async def test_a_range_that_is_not_there(
    dashboard: FakeDashboard, transport: HttpxTransport, answer: Answer, block: bytes
) -> None:
    dashboard.answer("GET", FILE, answer)
    assert await read_range(transport, "job-driver-rf-1.log", 3, 4) == block


async def test_a_pod_that_is_gone_is_no_empty_log(dashboard: FakeDashboard, transport: HttpxTransport) -> None:
    dashboard.answer("GET", FILE, Answer(status=404, body=kube_status(404, 'pods "c-head" not found')))
    with pytest.raises(ApiUnreachable, match="c-head"):
        await read_range(transport, "job-driver-rf-1.log", 3, 4)


async def test_the_node_that_runs_the_driver_is_asked(transport: HttpxTransport) -> None:
    asked = []

    async def read_file(node_id: str, filename: str, offset: int, limit: int) -> bytes | None:
        asked.append((node_id, filename, offset, limit))
        return b"block"

    assert await RayJobsClient(transport, read_file).read_driver_log(JOB, 10, 5) == b"block"
    assert asked == [("4a51", "job-driver-rf-1.log", 10, 5)]


async def test_nothing_new_is_no_reason_to_fetch_the_whole_log(
    dashboard: FakeDashboard, transport: HttpxTransport
) -> None:
    async def at_the_end(node_id: str, filename: str, offset: int, limit: int) -> bytes | None:
        return b""

    assert await RayJobsClient(transport, at_the_end).read_driver_log(JOB, 10, 5) == b""
    assert dashboard.seen == []


async def test_a_closed_way_falls_back_to_the_dashboard(dashboard: FakeDashboard, transport: HttpxTransport) -> None:
    async def no_right(node_id: str, filename: str, offset: int, limit: int) -> bytes | None:
        return None

    dashboard.answer("GET", "/api/v0/logs/file", Answer(body=b"0123456789"))
    assert await RayJobsClient(transport, no_right).read_driver_log(JOB, 3, 4) == b"3456"
    assert dashboard.seen[0].query == {"node_id": "4a51", "filename": "job-driver-rf-1.log", "lines": "-1"}


async def test_a_node_that_serves_nothing_falls_back_to_the_job_store(
    dashboard: FakeDashboard, jobs: RayJobsClient
) -> None:
    dashboard.answer("GET", "/api/v0/logs/file", Answer(status=500, body="no such node"))
    dashboard.answer("GET", "/api/jobs/rf-1/logs", Answer(body={"logs": "grüße"}))
    assert await jobs.read_driver_log(JOB, 0, 4) == "grü".encode()


async def test_a_submission_without_a_driver_has_no_log_yet(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    assert await jobs.read_driver_log(dataclasses.replace(JOB, driver_node_id=""), 0, 4) == b""
    assert dashboard.seen == []
