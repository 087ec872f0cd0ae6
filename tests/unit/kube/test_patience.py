"""Deadlines and retries: what is asked again, how long, and what is not."""

from __future__ import annotations

import pytest

from rayflight.errors import ApiUnreachable, TokenRefused
from rayflight.kube.client import KubeClient
from rayflight.kube.endpoint import Endpoint, resolve
from rayflight.kube.http import KubeHttp, Patience, Request
from rayflight.kube.refusals import Call
from rayflight.kube.resources import PODS
from tests.unit.kube.conftest import Sleeps
from tests.unit.kube.fake_kube import PODS as PODS_PATH
from tests.unit.kube.fake_kube import Answer, FakeKube, an_object


async def test_a_read_is_asked_again_after_503_and_dropped_connections(client: KubeClient, kube: FakeKube):
    kube.serve(PODS_PATH)
    kube.fail(503, "etcd leader changed", times=2)
    kube.drop(times=2)
    assert (await client.list(PODS, "ns")).items == []
    assert len(kube.requests) == 5


async def test_retry_after_is_honoured(client: KubeClient, kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    kube.fail(429, "too many requests", Retry_After="7")
    await client.list(PODS, "ns")
    assert sleeps.asked == [7.0]


async def test_patience_ends_with_the_budget_and_says_what_the_server_said(
    client: KubeClient, kube: FakeKube, sleeps: Sleeps
):
    kube.fail(503, "etcdserver: no leader", Retry_After="60")
    with pytest.raises(ApiUnreachable, match="etcdserver: no leader") as caught:
        await client.list(PODS, "ns")
    assert sleeps.asked == []
    assert (caught.value.status, caught.value.retry_after) == (503, 60.0)


async def test_delays_grow_and_are_bounded(client: KubeClient, kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    kube.fail(500, "x", times=9)
    await client.list(PODS, "ns")
    assert len(sleeps.asked) == 9
    assert sleeps.asked[0] <= 0.25
    assert 2.0 <= sleeps.asked[-1] <= 4.0


async def test_a_create_that_lost_its_answer_is_sent_again(client: KubeClient, kube: FakeKube):
    """Names are deterministic: the second arrival meets the first as a Conflict, which the caller resolves."""
    kube.script("POST", PODS_PATH, an_object("x"), 201)
    kube.drop()
    assert (await client.create(PODS, an_object("x"), "ns"))["metadata"]["name"] == "x"


async def test_what_is_proxied_is_asked_once(client: KubeClient, kube: FakeKube):
    kube.drop()
    with pytest.raises(ApiUnreachable):
        await client.proxy("services", "h", 8265, "ns", "/api/jobs/", method="POST")
    assert len(kube.requests) == 1


async def test_a_server_that_is_not_there_is_named(sleeps: Sleeps):
    async with FakeKube() as kube:
        access = kube.access()
    client = KubeClient(KubeHttp(await resolve(access), sleep=sleeps))
    with pytest.raises(ApiUnreachable, match=r"at http://127\.0\.0\.1:\d+ \(get /version\)"):
        await client.version()
    await client.close()


async def test_a_server_that_never_answers_hits_the_read_deadline(kube: FakeKube, sleeps: Sleeps):
    http = KubeHttp(await resolve(kube.access()), sleep=sleeps)
    kube.faults.append(Answer(hang=True))
    call = Call(verb="get", resource="/version", server=kube.url)
    with pytest.raises(ApiUnreachable):
        await http.send(Request(method="GET", path="/version", call=call, patience=Patience(read=0.05)))
    await http.close()


async def test_an_api_server_that_moved_is_followed_by_its_kubeconfig(kube: FakeKube, sleeps: Sleeps):
    async with FakeKube() as old:
        before = old.access()
    http = KubeHttp(await resolve(before), sleep=sleeps, renew=lambda: resolve(kube.access()))
    kube.script("GET", "/version", {"gitVersion": "v1.36.0"})
    client = KubeClient(http)
    assert await client.version() == "v1.36.0"
    assert http.server == kube.url
    await client.close()


async def test_credentials_that_were_rotated_are_read_again_but_not_again_and_again(kube: FakeKube, sleeps: Sleeps):
    read: list[int] = []

    async def renew() -> Endpoint:
        read.append(1)
        return await resolve(kube.access(token=f"token-{len(read)}"))

    client = KubeClient(KubeHttp(await resolve(kube.access()), sleep=sleeps, renew=renew))
    kube.fail(401, "Unauthorized", times=2)
    kube.script("GET", "/version", {"gitVersion": "v1.36.0"})
    await client.version()
    assert kube.requests[-1].headers["authorization"] == "Bearer token-1"
    kube.fail(401, "Unauthorized", times=4)
    with pytest.raises(TokenRefused):
        await client.version()
    assert len(read) == 1
    await client.close()
