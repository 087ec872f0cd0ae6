"""What waiting costs the API server, and that no outage loses a change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.kube.access import KubeAccess
from testbed.api import ApiServer, api_server
from tests.api.backend.conftest import a_spec, an_owner, make_namespace

WATCHED = ("rayclusters", "pods", "events", "nodes")
LISTED = ("resourcequotas", "persistentvolumeclaims", "services")


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Nobody else asks here, so that requests can be counted; and it is stopped and started."""
    with api_server("1.6.0", tmp_path_factory.mktemp("waiting")) as running:
        yield running


async def test_two_hundred_waits_cost_as_many_requests_as_one(own_server: ApiServer):
    namespace = make_namespace(own_server)
    access = KubeAccess(kubeconfig=str(own_server.kubeconfig))
    async with KubernetesBackend(access) as maker:
        owners = [an_owner(map_index=number) for number in range(200)]
        refs = [await maker.create(a_spec(), owner, namespace) for owner in owners]
        before = await requests(own_server, namespace)
        woken: set[str] = set()
        waits = [asyncio.create_task(wait_for_mark(access, ref, woken)) for ref in refs]
        await until(lambda: len(woken) == 200)
        during = await requests(own_server, namespace)
        for ref in refs:
            await maker.annotate(ref, {"rayflight.io/mark": "yes"})
        async with asyncio.timeout(100):
            seen = await asyncio.gather(*waits)
        after = await requests(own_server, namespace)
    assert seen == ["yes"] * 200
    lists = {kind: after["LIST", kind] - before["LIST", kind] for kind in (*WATCHED, *LISTED)}
    assert {kind: lists[kind] for kind in WATCHED} == dict.fromkeys(WATCHED, 1)
    assert max(lists.values()) <= 60  # quotas, claims and services: one list in five seconds, whoever asks
    watches = {kind: during["WATCHING", kind] - before["WATCHING", kind] for kind in WATCHED}
    assert watches == dict.fromkeys(WATCHED, 1)
    assert after["GET", "rayclusters"] == before["GET", "rayclusters"]


async def wait_for_mark(access: KubeAccess, ref: ClusterRef, woken: set[str]) -> str | None:
    """What a deferred wait does: a backend of its own, woken by changes, a look at each."""
    async with KubernetesBackend(access) as backend:
        async for _ in backend.changes(ref, at_least_every=30):
            snapshot = await backend.observe(ref)
            assert snapshot.cluster is not None
            woken.add(ref.uid)
            mark = snapshot.cluster.annotations.get("rayflight.io/mark")
            if mark:
                return mark
    return None


async def test_a_restart_of_the_api_server_loses_no_change(own_server: ApiServer, caplog: pytest.LogCaptureFixture):
    """The restarted server has forgotten older versions: the watch expires (410), a list says what changed."""
    caplog.set_level("INFO", logger="rayflight.kube.feed")
    namespace = make_namespace(own_server)
    access = KubeAccess(kubeconfig=str(own_server.kubeconfig))
    async with KubernetesBackend(access) as backend:
        goes = await backend.create(a_spec(), an_owner(run_id="goes"), namespace)
        stays = await backend.create(a_spec(), an_owner(run_id="stays"), namespace)
        changes = backend.changes(goes, at_least_every=60)
        await anext(changes)
        assert (await backend.observe(stays)).cluster is not None
        await asyncio.to_thread(own_server.stop)
        behind = await backend.observe(goes)
        assert behind.cluster is not None  # out of date for a moment, never "not there"
        own_server.restart()  # in this thread: the server dies with the thread that started it
        path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{goes.name}"
        await asyncio.to_thread(own_server.client.delete, path)
        async with asyncio.timeout(30):
            async for _ in changes:
                if (await backend.observe(goes)).cluster is None:
                    break
        assert (await backend.observe(stays)).cluster is not None
        await changes.aclose()


async def test_an_expired_version_is_answered_by_a_new_list(own_server: ApiServer, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", logger="rayflight.kube.feed")
    namespace = make_namespace(own_server)
    access = KubeAccess(kubeconfig=str(own_server.kubeconfig))
    async with KubernetesBackend(access) as backend:
        ref = await backend.create(a_spec(), an_owner(), namespace)
        await backend.observe(ref)
        feed = next(
            feed
            for topic, (feed, _) in backend._hub._feeds.items()
            if topic.namespace == namespace and str(topic.resource).startswith("rayclusters")
        )
        feed._version = "1"  # as if nothing had come for longer than etcd remembers
        before = (await requests(own_server, namespace))["LIST", "rayclusters"]
        await asyncio.to_thread(own_server.stop)
        own_server.restart()  # in this thread: the server dies with the thread that started it
        await until(lambda: "expired: listing anew" in caplog.text)
        await backend.annotate(ref, {"rayflight.io/mark": "yes"})
        async for _ in backend.changes(ref, at_least_every=5):
            found = (await backend.observe(ref)).cluster
            if found is not None and "rayflight.io/mark" in found.annotations:
                break
        assert (await requests(own_server, namespace))["LIST", "rayclusters"] - before <= 1


async def until(condition) -> None:
    async with asyncio.timeout(100):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.05)


async def requests(server: ApiServer, namespace: str) -> dict[tuple[str, str], int]:
    """What the API server itself counted: finished requests by verb and kind, and watches that are open now."""
    text = await asyncio.to_thread(metrics, server)
    counts: dict[tuple[str, str], int] = dict.fromkeys(
        ((verb, kind) for verb in ("LIST", "WATCHING", "GET") for kind in (*WATCHED, *LISTED)), 0
    )
    for name, labels, value in re.findall(r"^(apiserver_\w+)\{([^}]*)\} (\S+)$", text, re.MULTILINE):
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        verb = {"apiserver_request_total": label.get("verb"), "apiserver_longrunning_requests": "WATCHING"}.get(name)
        key = (str(verb), label.get("resource", ""))
        if key in counts and label.get("subresource", "") == "":
            counts[key] += int(float(value))
    return counts


def metrics(server: ApiServer) -> str:
    """The metrics are text: testbed's client reads JSON, and hands on what is none."""
    return str(server.client.request("GET", "/metrics")[1]["text"])
