"""Ray and the API server's proxy answer on one path; each refusal is read as the one who said it."""

from __future__ import annotations

import pytest

from rayflight.errors import ApiError, ApiUnreachable, PermissionMissing, RequestRejected, TokenRefused
from rayflight.rayjobs.client import RayJobsClient
from rayflight.states import JobStatus
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard, kube_status

PATH = "/api/jobs/rf-1"
FAILED = {
    "type": "SUBMISSION",
    "job_id": None,
    "submission_id": "rf-1",
    "driver_info": None,
    "status": "FAILED",
    "entrypoint": "sh -c 'echo about to fail; exit 7'",
    "message": "Job entrypoint command failed with exit code 7, last available logs (truncated to 20,000 chars):\n",
    "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR",
    "start_time": 1796108146507,
    "end_time": 1796108148776,
    "metadata": None,
    "runtime_env": {"env_vars": {"USE_LIBUV": "0"}},
    "driver_agent_http_address": "http://10.244.0.3:52365",
    "driver_node_id": "f50f7edd25b8563adddd6edec4fd6df382785278cbb959f09ff36137",
    "driver_exit_code": 7,
}


async def test_a_submission_is_read_as_ray_tells_it(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("GET", PATH, Answer(body=FAILED))
    job = await jobs.get("rf-1")
    assert job is not None
    assert (job.status, job.driver_exit_code, job.error_type) == (JobStatus.FAILED, 7, "JOB_ENTRYPOINT_COMMAND_ERROR")


async def test_only_rays_own_404_means_unknown(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("GET", PATH, Answer(status=404, body="Job rf-1 does not exist"))
    assert await jobs.get("rf-1") is None


async def test_a_missing_service_is_no_missing_job(dashboard: FakeDashboard, jobs: RayJobsClient) -> None:
    dashboard.answer("GET", PATH, Answer(status=404, body=kube_status(404, 'services "c-head-svc" not found')))
    with pytest.raises(ApiUnreachable, match="c-head-svc"):
        await jobs.get("rf-1")


REFUSALS: list[tuple[Answer, type[ApiError], str]] = [
    (Answer(status=401, body="Unauthorized: Missing authentication token"), TokenRefused, "RAY_AUTH_TOKEN"),
    (Answer(status=403, body="Forbidden: Invalid authentication token"), TokenRefused, "RAY_AUTH_TOKEN"),
    (Answer(status=401, body=kube_status(401, "Unauthorized")), TokenRefused, "credentials of the connection"),
    (
        Answer(
            status=403,
            body=kube_status(403, 'services "c-head-svc:dashboard" is forbidden: cannot get resource "services/proxy"'),
        ),
        PermissionMissing,
        "services/proxy",
    ),
    (Answer(status=503, body=kube_status(503, "no endpoints available for service")), ApiUnreachable, "no endpoints"),
    (Answer(status=429, body=kube_status(429, "too many requests")), ApiUnreachable, "too many requests"),
    (Answer(status=502, body=b""), ApiUnreachable, "HTTP 502"),
    (Answer(status=500, body="Cannot connect to host 10.244.0.3:52365"), ApiUnreachable, "Cannot connect to host"),
    (Answer(status=400, body="ValueError: no such filter"), RequestRejected, "no such filter"),
    (Answer(status=400, body=kube_status(400, "bad request")), RequestRejected, "bad request"),
    (Answer(body="<html>another server</html>"), ApiUnreachable, "no JSON"),
    (Answer(drop=True), ApiUnreachable, "did not answer"),
]


@pytest.mark.parametrize(
    ("answer", "error", "text"), REFUSALS, ids=lambda value: str(getattr(value, "body", value))[:40]
)
async def test_a_refusal_names_its_cause(
    dashboard: FakeDashboard, jobs: RayJobsClient, answer: Answer, error: type[ApiError], text: str
) -> None:
    dashboard.answer("GET", PATH, answer)
    with pytest.raises(ApiError, match=text) as caught:
        await jobs.get("rf-1")
    assert type(caught.value) is error
