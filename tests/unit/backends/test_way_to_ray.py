"""How the dashboard and the agents are reached: proxy, token, head pod, and what is said when it is none of them."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_jobs import Dashboard
from rayflight.backends.kube_ray import token_reference
from rayflight.errors import ApiUnreachable, PermissionMissing, TokenRefused
from rayflight.kube.client import KubeClient
from rayflight.rayjobs.transport import HttpxTransport
from tests.unit.kube.fake_kube import Answer, FakeKube, Seen, status

NS = "/api/v1/namespaces/ns"
CLUSTER = "/apis/ray.io/v1/namespaces/ns/rayclusters/c"
SERVICE = f"{NS}/services/c-head-svc:dashboard/proxy"
VERSION = b'{"ray_version": "2.60.0", "session_name": "s1"}'
REF = ClusterRef(namespace="ns", name="c", uid="u1")
TOKEN = {"data": {"auth_token": base64.b64encode(b"t0ken").decode()}}


def a_cluster(**spec: Any) -> dict[str, Any]:
    head = {"serviceName": "c-head-svc"}
    meta = {"name": "c", "namespace": "ns", "uid": "u1"}
    return {"metadata": meta, "spec": spec, "status": {"head": head}}


@pytest.fixture
def dashboard(client: KubeClient, kube: FakeKube) -> Dashboard:
    kube.script("GET", CLUSTER, a_cluster())
    return Dashboard(client, kube.access(), REF)


async def test_the_dashboard_answers_through_the_service_proxy(dashboard: Dashboard, kube: FakeKube):
    kube.script("GET", f"{SERVICE}/api/version", VERSION)
    assert await dashboard.jobs.version() == ("2.60.0", "s1")
    assert "x-ray-authorization" not in kube.requests[-1].headers


async def test_the_token_is_brought_when_ray_asks_for_it_and_kept(dashboard: Dashboard, kube: FakeKube):
    kube.script("GET", f"{NS}/secrets/c", TOKEN)
    kube.script("GET", f"{SERVICE}/api/version", VERSION)
    missing = b"Unauthorized: Missing authentication token"
    kube.faults.append(Answer(status=401, body=missing, when=lambda seen: seen.path.startswith(SERVICE)))
    await dashboard.jobs.version()
    assert kube.requests[-1].headers["x-ray-authorization"] == "Bearer t0ken"
    await dashboard.jobs.version()
    assert kube.requests[-1].headers["x-ray-authorization"] == "Bearer t0ken"
    assert sum(1 for seen in kube.requests if "secrets" in seen.path) == 1


async def test_requests_at_once_all_bring_the_token(dashboard: Dashboard, kube: FakeKube):
    kube.script("GET", f"{NS}/secrets/c", TOKEN)
    kube.script("GET", f"{SERVICE}/api/version", VERSION)
    missing = b"Unauthorized: Missing authentication token"
    bare = Answer(status=401, body=missing, when=lambda seen: seen.path.startswith(SERVICE) and not brings_token(seen))
    kube.faults += [bare] * 5
    answers = await asyncio.gather(*(dashboard.jobs.version() for _ in range(5)))
    assert answers == [("2.60.0", "s1")] * 5


async def test_a_stranger_is_sent_the_same_way_without_the_token(dashboard: Dashboard, kube: FakeKube):
    kube.script("GET", f"{NS}/secrets/c", TOKEN)
    kube.script("GET", f"{SERVICE}/api/version", VERSION)
    kube.script("GET", f"{SERVICE}/api/jobs/", b"[]")
    missing = b"Unauthorized: Missing authentication token"
    bare = Answer(status=401, body=missing, when=lambda seen: seen.path.startswith(SERVICE) and not brings_token(seen))
    kube.faults += [bare] * 2
    await dashboard.jobs.version()  # from here on the token is known
    assert await dashboard.jobs.status_without_token() == 401
    assert not brings_token(kube.requests[-1])
    assert await dashboard.jobs.status_without_token() == 200  # an open dashboard gives the list away


def brings_token(seen: Seen) -> bool:
    return "x-ray-authorization" in seen.headers


async def test_a_token_that_ray_refuses_for_good_is_said(dashboard: Dashboard, kube: FakeKube):
    kube.script("GET", f"{NS}/secrets/c", TOKEN)
    kube.script("GET", f"{SERVICE}/api/version", b"Forbidden: Invalid authentication token", 403)
    with pytest.raises(TokenRefused, match="Invalid authentication token"):
        await dashboard.jobs.version()


async def test_a_secret_that_may_not_be_read_is_named(dashboard: Dashboard, kube: FakeKube):
    message = 'secrets "c" is forbidden: User "u" cannot get resource "secrets" in API group "" in the namespace "ns"'
    kube.script("GET", f"{NS}/secrets/c", status(403, message, "Forbidden"), 403)
    kube.script("GET", f"{SERVICE}/api/version", b"Unauthorized: Missing authentication token", 401)
    with pytest.raises(PermissionMissing, match="get secrets"):
        await dashboard.jobs.version()


async def test_the_head_pod_s_port_serves_where_the_service_has_no_such_port(dashboard: Dashboard, kube: FakeKube):
    none = status(503, 'no endpoints available for service "c-head-svc:dashboard"', "ServiceUnavailable")
    kube.script("GET", f"{SERVICE}/api/version", none, 503)
    pod = {"metadata": {"name": "c-head-1", "namespace": "ns"}, "status": {"phase": "Running"}}
    kube.script("GET", f"{NS}/pods", {"metadata": {"resourceVersion": "1"}, "items": [pod]})
    kube.script("GET", f"{NS}/pods/c-head-1:8265/proxy/api/version", VERSION)
    assert await dashboard.jobs.version() == ("2.60.0", "s1")
    kube.script("GET", f"{NS}/pods/c-head-1:8265/proxy/api/version", status(404, "pods not found", "NotFound"), 404)
    with pytest.raises(ApiUnreachable):
        await dashboard.jobs.version()
    kube.script("GET", f"{SERVICE}/api/version", VERSION)  # a new head: the service is asked first again
    assert await dashboard.jobs.version() == ("2.60.0", "s1")


async def test_a_cluster_that_is_gone_is_unreachable_and_not_somebody_else_s(dashboard: Dashboard, kube: FakeKube):
    other = a_cluster()
    other["metadata"]["uid"] = "u2"
    kube.script("GET", CLUSTER, other)
    with pytest.raises(ApiUnreachable, match="another one has its name"):
        await dashboard.jobs.version()


NODES = {"result": True, "data": {"result": {"result": [{"node_id": "n1", "node_ip": "10.0.0.1", "state": "ALIVE"}]}}}
SUMMARY = {"data": {"summary": [{"raylet": {"nodeId": "n1", "instanceId": "c-head-1"}}]}}
AGENT = f"{NS}/pods/c-head-1:52365/proxy/logs/job-driver-x.log"


async def test_a_log_is_read_by_range_from_the_agent_of_its_pod(dashboard: Dashboard, kube: FakeKube):
    kube.script("GET", f"{SERVICE}/api/v0/nodes", NODES)
    kube.script("GET", f"{SERVICE}/nodes", SUMMARY)
    kube.script("GET", AGENT, b"bytes", 206)
    assert await dashboard.read_file("n1", "job-driver-x.log", 10, 5) == b"bytes"
    assert kube.requests[-1].headers["range"] == "bytes=10-14"
    kube.script("GET", AGENT, b"", 416)
    assert await dashboard.read_file("n1", "job-driver-x.log", 15, 5) == b""


async def test_where_the_agent_may_not_be_reached_another_way_is_taken(dashboard: Dashboard, kube: FakeKube):
    kube.script("GET", f"{SERVICE}/api/v0/nodes", NODES)
    kube.script("GET", f"{SERVICE}/nodes", SUMMARY)
    message = 'pods "c-head-1:52365" is forbidden: User "u" cannot get resource "pods/proxy" in API group ""'
    kube.script("GET", AGENT, status(403, message, "Forbidden"), 403)
    assert await dashboard.read_file("n1", "job-driver-x.log", 0, 5) is None
    asked = len(kube.requests)
    assert await dashboard.read_file("n1", "job-driver-x.log", 0, 5) is None
    assert len(kube.requests) == asked  # not asked again for a while


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("c", "auth_token")),
        ({"authOptions": {"mode": "token"}}, ("c", "auth_token")),
        ({"authOptions": {"mode": "token", "secretName": "mine"}}, ("mine", "auth_token")),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": [{"env": [
                {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]}}}},
            ("s", "k"),
        ),
    ],
)  # fmt: skip
def test_the_token_stands_where_the_cluster_says(spec: dict[str, Any], expected: tuple[str, str]):
    assert token_reference(a_cluster(**spec)) == expected


async def test_inside_the_cluster_the_dashboard_is_reached_by_its_name(client: KubeClient, kube: FakeKube):
    kube.script("GET", CLUSTER, a_cluster())
    inside = Dashboard(client, kube.access(dashboard="direct"), REF)
    way = await inside._way()
    assert isinstance(way, HttpxTransport)
    assert way.base_url == inside.url == "http://c-head-svc.ns.svc:8265"
    await inside.close()
