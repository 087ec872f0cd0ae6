"""Which logs are collected, how much of each, and what is masked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rayflight.backends.base import ClusterRef, LogFile
from rayflight.backends.kube_logs import KubeLogs
from rayflight.backends.kube_tails import LogTails
from rayflight.backends.log_choice import head_and_tail
from rayflight.errors import ApiError
from rayflight.kube.client import KubeClient
from rayflight.masking import masked
from rayflight.rayjobs.transport import Request, Response, Transport
from tests.unit.kube.fake_kube import FakeKube, status

NS = "/api/v1/namespaces/ns"
REF = ClusterRef(namespace="ns", name="c", uid="u1")
INDEX = b"".join(
    b'<li><a href="/api/v1/namespaces/ns/pods/p:52365/proxy/logs/%s">x</a></li>' % name  # as the API server's proxy
    for name in (b"raylet.out", b"worker-1.err", b"job-driver-a.log", b"core-driver.bin", b"jobs/", b"old/raylet.out")
)


async def no_token() -> str | None:
    return None


def a_pod(**status_: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"ray.io/cluster": "c"}}
    return {"metadata": meta, "status": status_}


def a_container(state: dict[str, Any], restarts: int = 0) -> dict[str, Any]:
    return {"name": "ray-head", "state": state, "restartCount": restarts}


@pytest.fixture
def logs(client: KubeClient) -> KubeLogs:
    return KubeLogs(client, REF, no_token)


async def test_containers_and_ray_s_files_are_listed_the_most_telling_first(logs: KubeLogs, kube: FakeKube):
    pod = a_pod(phase="Running", containerStatuses=[a_container({"running": {}}, restarts=1)])
    kube.script("GET", f"{NS}/pods", {"metadata": {"resourceVersion": "1"}, "items": [pod]})
    agent = f"{NS}/pods/p:52365/proxy/logs"
    kube.script("GET", f"{agent}/", INDEX)
    kube.script("GET", f"{agent}/jobs/", b'<a href="/logs/jobs/supervisor-a.log">')
    kube.script("GET", f"{agent}/train/", b"404: Not Found", 404)
    found = await logs.list()
    assert [(log.source, log.name) for log in found] == [
        ("pods/p/ray-head", "p/ray-head.log"),
        ("pods/p/ray-head/previous", "p/ray-head.previous.log"),
        ("ray/p", "p/job-driver-a.log"),
        ("ray/p", "p/raylet.out"),
        ("ray/p", "p/worker-1.err"),
        ("ray/p", "p/jobs/supervisor-a.log"),
    ]


async def test_a_pod_whose_agent_is_silent_still_has_its_container_logs(logs: KubeLogs, kube: FakeKube):
    pod = a_pod(phase="Running", containerStatuses=[a_container({"running": {}})])
    kube.script("GET", f"{NS}/pods", {"metadata": {"resourceVersion": "1"}, "items": [pod]})
    for folder in ("", "jobs/", "train/"):
        refused = status(503, "error trying to reach service: connection refused", "ServiceUnavailable")
        kube.script("GET", f"{NS}/pods/p:52365/proxy/logs/{folder}", refused, 503)
    container, silent = await logs.list()
    assert container.name == "p/ray-head.log"
    assert "connection refused" in silent.missing
    with pytest.raises(ApiError, match=r"Ray's log files: .*connection refused"):
        await anext(logs.read(silent, 100))


async def test_a_pod_with_very_many_files_says_how_many_were_left_out(logs: KubeLogs, kube: FakeKube):
    pod = a_pod(phase="Running")
    kube.script("GET", f"{NS}/pods", {"metadata": {"resourceVersion": "1"}, "items": [pod]})
    agent = f"{NS}/pods/p:52365/proxy/logs"
    kube.script("GET", f"{agent}/", b"".join(b'<a href="/logs/worker-%d.err">' % number for number in range(100)))
    kube.script("GET", f"{agent}/jobs/", b"")
    kube.script("GET", f"{agent}/train/", b"")
    *found, left = await logs.list()
    assert len(found) == 60
    assert left.missing.startswith("40 more files were left out")


@pytest.mark.parametrize("size", [10, 100, 101, 5000])
async def test_of_a_long_file_only_head_and_tail_are_sent(logs: KubeLogs, size: int):
    data = bytes(number % 251 for number in range(size))
    sent: list[int] = []

    class Agent(Transport):
        async def send(self, request: Request) -> Response:
            start, end = (int(number) for number in request.headers["Range"].removeprefix("bytes=").split("-"))
            body = data[start : end + 1]
            sent.append(len(body))
            return Response(status=206, headers={"content-range": f"bytes {start}-{end}/{size}"}, body=body)

    logs._agents["p"] = Agent()
    found = b"".join([block async for block in logs.read(LogFile(source="ray/p", name="p/raylet.out"), 100)])
    cut = f"\n... {size - 100} bytes left out ...\n".encode()
    assert found == (data if size <= 100 else data[:50] + cut + data[-50:])
    assert sum(sent) <= 100


async def test_a_container_that_waits_has_no_log_but_its_previous_one(logs: KubeLogs, kube: FakeKube):
    pod = a_pod(phase="Pending", containerStatuses=[a_container({"waiting": {}}, restarts=3)])
    kube.script("GET", f"{NS}/pods", {"metadata": {"resourceVersion": "1"}, "items": [pod]})
    assert [log.name for log in await logs.list()] == ["p/ray-head.previous.log"]


async def test_each_source_is_read_where_it_lives(logs: KubeLogs, kube: FakeKube):
    kube.script("GET", f"{NS}/pods/p/log", b"container")
    kube.script("GET", f"{NS}/pods/p:52365/proxy/logs/jobs/s.log", b"file", 206)
    container = LogFile(source="pods/p/ray-head/previous", name="p/ray-head.previous.log")
    assert b"".join([block async for block in logs.read(container, 100)]) == b"container"
    assert kube.requests[-1].query == {"container": "ray-head", "previous": "true"}
    file = LogFile(source="ray/p", name="p/jobs/s.log")
    assert b"".join([block async for block in logs.read(file, 100)]) == b"file"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_head_and_tail_are_kept_and_the_cut_is_marked(size: int):
    data = bytes(range(97, 123)) * 4

    async def blocks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    async def cut(limit: int) -> bytes:
        return b"".join([block async for block in head_and_tail(blocks(), limit)])

    assert await cut(len(data)) == data
    assert await cut(1000) == data
    assert await cut(20) == data[:10] + b"\n... 84 bytes left out ...\n" + data[-10:]


def test_values_of_variables_that_speak_of_secrets_are_masked():
    env = [{"name": "DB_PASSWORD", "value": "x"}, {"name": "EPOCHS", "value": "3"}, {"name": "TOKEN", "valueFrom": {}}]
    pod = {"metadata": {"managedFields": [1]}, "spec": {"containers": [{"env": env}]}}
    found = masked(pod)
    assert found["metadata"] == {}
    assert found["spec"]["containers"][0]["env"] == [
        {"name": "DB_PASSWORD", "value": "*****"},
        {"name": "EPOCHS", "value": "3"},
        {"name": "TOKEN", "valueFrom": {}},
    ]


async def test_the_last_words_of_a_crash_are_read_once_per_restart(client: KubeClient, kube: FakeKube):
    tails = LogTails(client)
    kube.script("GET", f"{NS}/pods/p/log", b"RuntimeError: Version mismatch\n")
    crashed = a_pod(containerStatuses=[a_container({"waiting": {"reason": "CrashLoopBackOff"}}, restarts=1)])
    for _ in range(3):
        assert await tails.read([crashed]) == {"p/ray-head/previous": "RuntimeError: Version mismatch\n"}
    assert len(kube.requests) == 1
    again = a_pod(containerStatuses=[a_container({"terminated": {"exitCode": 1}}, restarts=2)])
    assert list(await tails.read([again])) == ["p/ray-head"]
    assert kube.requests[-1].query["previous"] == "false"


async def test_a_healthy_container_s_log_is_left_alone(client: KubeClient, kube: FakeKube):
    assert await LogTails(client).read([a_pod(containerStatuses=[a_container({"running": {}})])]) == {}


async def test_a_worker_that_does_not_find_a_ready_head_is_read_while_it_runs(client: KubeClient, kube: FakeKube):
    line = b"4 seconds elapsed: Waiting for GCS to be ready.\n"
    kube.script("GET", f"{NS}/pods/w/log", line)
    seeking = a_pod(initContainerStatuses=[{**a_container({"running": {}}), "name": "wait-gcs-ready"}])
    seeking["metadata"] = {**seeking["metadata"], "name": "w", "labels": {"ray.io/node-type": "worker"}}
    tails = LogTails(client)
    assert await tails.read([a_head("False"), seeking]) == {}
    for _ in range(3):
        assert await tails.read([a_head("True"), seeking]) == {"w/wait-gcs-ready": line.decode()}
    assert len(kube.requests) == 1, "not more often than every few seconds"
    assert await tails.read([a_head("True")]) == {}


def a_head(ready: str) -> dict[str, Any]:
    pod = a_pod(conditions=[{"type": "Ready", "status": ready}])
    return {**pod, "metadata": {**pod["metadata"], "name": "h", "labels": {"ray.io/node-type": "head"}}}
