"""The Ray side of a snapshot: what answers becomes facts, what does not becomes a named gap."""

from __future__ import annotations

from typing import Any

import pytest

from rayflight.errors import ApiUnreachable
from rayflight.rayjobs.client import RayJobsClient
from tests.unit.rayjobs.fake_dashboard import Answer, FakeDashboard

NODE = {
    "node_id": "4a51",
    "node_ip": "10.244.0.7",
    "is_head_node": False,
    "state": "ALIVE",
    "state_message": None,
    "resources_total": {"CPU": 1.0, "GPU": 1.0},
    "labels": {"ray.io/node-group": "gpu"},
    "start_time_ms": 1796107337810,
    "end_time_ms": 0,
}
SUMMARY = {"result": True, "data": {"summary": [{"raylet": {"nodeId": "4a51", "instanceId": "c-gpu-worker-x"}}]}}
DEMANDS = "======== Autoscaler status ========\nPending Demands:\n {'GPU': 8.0}: 1+ pending tasks/actors"


def listed(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"result": True, "msg": "", "data": {"result": {"total": len(rows), "result": list(rows)}}}


@pytest.fixture
def healthy(dashboard: FakeDashboard) -> FakeDashboard:
    dashboard.answer("GET", "/api/version", Answer(body={"ray_version": "2.60.0", "session_name": "session_1"}))
    dashboard.answer("GET", "/api/gcs_healthz", Answer(body="success"))
    dashboard.answer("GET", "/api/v0/nodes", Answer(body=listed(NODE)))
    dashboard.answer("GET", "/nodes", Answer(body=SUMMARY))
    dashboard.answer("GET", "/api/jobs/", Answer(body=[{"submission_id": None, "status": "RUNNING"}]))
    dashboard.answer("GET", "/api/v0/placement_groups", Answer(body=listed()))
    dashboard.answer("GET", "/api/cluster_status", Answer(body={"result": True, "data": {"clusterStatus": DEMANDS}}))
    return dashboard


async def test_a_healthy_cluster_is_read_whole(healthy: FakeDashboard, jobs: RayJobsClient) -> None:
    ray = await jobs.state()
    assert (ray.session, ray.version, ray.gcs_healthy, ray.gaps) == ("session_1", "2.60.0", True, ())
    assert [(node.pod, node.group, node.resources["GPU"]) for node in ray.nodes] == [("c-gpu-worker-x", "gpu", 1.0)]
    assert ray.jobs == ()
    assert ray.pending_demands == ("{'GPU': 8.0}: 1+ pending tasks/actors",)


async def test_a_piece_that_does_not_answer_is_a_gap(healthy: FakeDashboard, jobs: RayJobsClient) -> None:
    healthy.answer("GET", "/api/v0/nodes", Answer(status=500, body="internal"))
    healthy.answer("GET", "/nodes", Answer(drop=True))
    ray = await jobs.state()
    assert ray.nodes == ()
    assert [gap.source for gap in ray.gaps] == ["ray/nodes", "ray/nodes_summary"]


async def test_a_state_api_that_says_it_failed_is_a_gap(healthy: FakeDashboard, jobs: RayJobsClient) -> None:
    healthy.answer("GET", "/api/v0/nodes", Answer(body={"result": False, "msg": "GCS is away", "data": {}}))
    ray = await jobs.state()
    assert ["GCS is away" in gap.why for gap in ray.gaps] == [True]


async def test_a_gcs_that_is_away_is_unhealthy_not_unknown(healthy: FakeDashboard, jobs: RayJobsClient) -> None:
    text = "Health check failed: Timed out while waiting for GCS to become available."
    healthy.answer("GET", "/api/gcs_healthz", Answer(status=503, body=text))
    assert (await jobs.state()).gcs_healthy is False


async def test_without_a_version_there_is_no_state(healthy: FakeDashboard, jobs: RayJobsClient) -> None:
    healthy.answer("GET", "/api/version", Answer(drop=True))
    with pytest.raises(ApiUnreachable):
        await jobs.state()
