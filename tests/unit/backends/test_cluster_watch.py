"""One cluster's share of the watches: absence is asked for, staleness is said, bursts are one look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_watch import ClusterWatch
from rayflight.kube.client import KubeClient
from rayflight.kube.hub import Hub
from tests.unit.kube.conftest import Sleeps
from tests.unit.kube.fake_kube import FakeKube, an_object, status

NS = "/api/v1/namespaces/ns"
CLUSTERS = "/apis/ray.io/v1/namespaces/ns/rayclusters"
REF = ClusterRef(namespace="ns", name="c", uid="uid-c")


@pytest.fixture
async def watch(kube: FakeKube, client: KubeClient) -> AsyncIterator[ClusterWatch]:
    kube.serve(CLUSTERS, f"{NS}/pods", f"{NS}/events", "/api/v1/nodes")
    async with Hub(client, sleep=Sleeps()) as hub:
        watch = ClusterWatch(hub, REF)
        await watch.settled()
        await kube.until(lambda: kube.watching(CLUSTERS) == 1)
        yield watch
        watch.close()
        await hub.close()


async def test_a_cluster_that_the_watch_does_not_know_yet_is_asked_for(watch: ClusterWatch, kube: FakeKube):
    """A watch is a moment behind the API: what was just created must not be called gone."""
    kube.script("GET", f"{CLUSTERS}/c", an_object("c"))
    found = await watch.cluster()
    assert found is not None
    assert found["metadata"]["uid"] == "uid-c"


async def test_a_cluster_that_the_api_does_not_have_is_gone(watch: ClusterWatch, kube: FakeKube):
    kube.script("GET", f"{CLUSTERS}/c", status(404, "not found", "NotFound"), 404)
    assert await watch.cluster() is None


async def test_a_cluster_that_is_known_costs_no_request(watch: ClusterWatch, kube: FakeKube):
    looks = watch.changes(60)
    await anext(looks)
    kube.put(CLUSTERS, an_object("c"))
    await anext(looks)
    asked = len(kube.requests)
    assert await watch.cluster() is not None
    assert len(kube.requests) == asked
    await looks.aclose()


async def test_a_burst_of_changes_is_one_look(watch: ClusterWatch, kube: FakeKube):
    looks = watch.changes(60)
    await anext(looks)
    for number in range(20):
        kube.put(f"{NS}/pods", an_object(f"p{number}", metadata={"labels": {"ray.io/cluster": "c"}}))
    await anext(looks)
    assert len(watch.objects("pods")) == 20
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await anext(looks)


async def test_a_look_comes_at_least_every_so_many_seconds(watch: ClusterWatch):
    async with asyncio.timeout(5):
        looks = watch.changes(0.05)
        for _ in range(3):
            await anext(looks)
        await looks.aclose()


async def test_changes_of_another_cluster_are_no_reason_to_look(watch: ClusterWatch, kube: FakeKube):
    looks = watch.changes(60)
    await anext(looks)
    kube.put(f"{NS}/pods", an_object("other", metadata={"labels": {"ray.io/cluster": "d"}}))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await anext(looks)
    assert watch.objects("pods") == []
