"""What the client makes of what an API server answers."""

from __future__ import annotations

import pytest

from rayflight.errors import ApiUnreachable, Conflict, PermissionMissing, RequestRejected, TokenRefused
from rayflight.kube.client import KubeClient
from rayflight.kube.resources import NODES, PODS, RAYCLUSTERS
from tests.unit.kube.fake_kube import PODS as PODS_PATH
from tests.unit.kube.fake_kube import Answer, FakeKube, an_object, status

USER = 'User "system:serviceaccount:a:b"'
FORBIDDEN = f'pods is forbidden: {USER} cannot list resource "pods" in API group "" in the namespace "ns"'
QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'


async def test_an_object_that_is_not_there_is_none(client: KubeClient, kube: FakeKube):
    kube.script("GET", f"{PODS_PATH}/x", status(404, 'pods "x" not found', "NotFound"), 404)
    assert await client.get(PODS, "x", "ns") is None


async def test_an_error_is_never_turned_into_not_found(client: KubeClient, kube: FakeKube):
    kube.script("GET", f"{PODS_PATH}/x", status(403, FORBIDDEN, "Forbidden"), 403)
    with pytest.raises(PermissionMissing):
        await client.get(PODS, "x", "ns")


async def test_a_missing_permission_names_verb_resource_namespace_and_user(client: KubeClient, kube: FakeKube):
    kube.script("GET", PODS_PATH, status(403, FORBIDDEN, "Forbidden"), 403)
    with pytest.raises(PermissionMissing) as caught:
        await client.list(PODS, "ns")
    said = str(caught.value)
    assert all(word in said for word in ("list", "pods", '"ns"', "system:serviceaccount:a:b"))
    assert caught.value.status == 403


async def test_a_quota_refusal_is_no_missing_permission(client: KubeClient, kube: FakeKube):
    kube.script("POST", PODS_PATH, status(403, QUOTA, "Forbidden"), 403)
    with pytest.raises(RequestRejected, match="exceeded quota"):
        await client.create(PODS, an_object("x"), "ns")


async def test_a_create_is_strict_and_keeps_the_api_s_own_words(client: KubeClient, kube: FakeKube):
    kube.script("POST", PODS_PATH, status(400, 'strict decoding error: unknown field "spec.zzz"', "BadRequest"), 400)
    with pytest.raises(RequestRejected, match=r'unknown field "spec\.zzz"'):
        await client.create(PODS, an_object("x"), "ns")
    assert kube.requests[-1].query == {"fieldValidation": "Strict"}


async def test_a_name_that_exists_is_a_conflict(client: KubeClient, kube: FakeKube):
    kube.script("POST", PODS_PATH, status(409, 'pods "x" already exists', "AlreadyExists"), 409)
    with pytest.raises(Conflict, match="already exists"):
        await client.create(PODS, an_object("x"), "ns")


async def test_a_delete_carries_the_uid_as_precondition(client: KubeClient, kube: FakeKube):
    kube.script("DELETE", f"{PODS_PATH}/x", {})
    assert await client.delete(PODS, "x", "ns", uid="u-1", propagation="Foreground")
    assert b'"preconditions": {"uid": "u-1"}' in kube.requests[-1].body
    assert b'"propagationPolicy": "Foreground"' in kube.requests[-1].body


async def test_deleting_what_is_gone_is_silent(client: KubeClient, kube: FakeKube):
    kube.script("DELETE", f"{PODS_PATH}/x", status(404, "gone", "NotFound"), 404)
    assert not await client.delete(PODS, "x", "ns", uid="u-1")


async def test_a_refused_token_is_asked_for_again_once_and_then_said(client: KubeClient, kube: FakeKube):
    kube.serve(PODS_PATH)
    kube.fail(401, "Unauthorized")
    assert (await client.list(PODS, "ns")).items == []
    kube.fail(401, "Unauthorized", times=2)
    with pytest.raises(TokenRefused, match="Unauthorized"):
        await client.list(PODS, "ns")


async def test_a_list_reads_page_by_page(client: KubeClient, kube: FakeKube):
    more = Answer(
        body={"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [an_object("a")]},
        when=lambda seen: "continue" not in seen.query,
    )
    last = Answer(
        body={"metadata": {"resourceVersion": "7"}, "items": [an_object("b")]},
        when=lambda seen: seen.query.get("continue") == "next",
    )
    kube.faults += [more, last]
    listing = await client.list(RAYCLUSTERS, "ns")
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.version == "7"


async def test_a_list_whose_continue_token_expired_starts_again_whole(client: KubeClient, kube: FakeKube):
    page = {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [an_object("a")]}
    kube.faults.append(Answer(body=page))
    kube.fail(410, "expired")
    kube.serve(PODS_PATH)
    kube.put(PODS_PATH, an_object("z"))
    assert [item["metadata"]["name"] for item in (await client.list(PODS, "ns")).items] == ["z"]
    assert "limit" not in kube.requests[-1].query


async def test_an_answer_that_is_no_json_is_not_a_kubernetes_api(client: KubeClient, kube: FakeKube):
    kube.script("GET", "/api/v1/nodes", b"<html>login</html>")
    with pytest.raises(ApiUnreachable, match="Not a Kubernetes API"):
        await client.list(NODES)


async def test_the_answer_of_a_proxied_service_is_passed_on_whatever_its_status(client: KubeClient, kube: FakeKube):
    path = "/api/v1/namespaces/ns/services/h:dashboard/proxy/api/jobs/x"
    kube.script("GET", path, b"Job x does not exist", 404)
    answer = await client.proxy("services", "h", "dashboard", "ns", "/api/jobs/x", headers={"Range": "bytes=5-"})
    assert (answer.status, answer.body) == (404, b"Job x does not exist")
    assert kube.requests[-1].headers["range"] == "bytes=5-"


async def test_a_proxied_service_that_is_missing_is_unreachable_and_no_404_of_its_own(
    client: KubeClient, kube: FakeKube
):
    path = "/api/v1/namespaces/ns/services/h:dashboard/proxy/api/jobs/x"
    kube.script("GET", path, status(404, 'services "h" not found', "NotFound"), 404)
    with pytest.raises(ApiUnreachable, match='services "h" not found'):
        await client.proxy("services", "h", "dashboard", "ns", "/api/jobs/x")


async def test_a_proxy_that_is_not_permitted_names_the_subresource(client: KubeClient, kube: FakeKube):
    message = f'services "h:dashboard" is forbidden: {USER} cannot get resource "services/proxy" in API group ""'
    path = "/api/v1/namespaces/ns/services/h:dashboard/proxy/api/version"
    kube.script("GET", path, status(403, message, "Forbidden"), 403)
    with pytest.raises(PermissionMissing, match="services/proxy"):
        await client.proxy("services", "h", "dashboard", "ns", "/api/version")


@pytest.mark.parametrize(
    ("method", "verb"), [("GET", "get"), ("POST", "create"), ("PUT", "update"), ("DELETE", "delete")]
)
async def test_a_proxy_that_is_not_permitted_names_the_verb_that_the_method_needs(
    client: KubeClient, kube: FakeKube, method: str, verb: str
):
    message = f'services "h:dashboard" is forbidden: {USER} cannot {verb} resource "services/proxy" in API group ""'
    path = "/api/v1/namespaces/ns/services/h:dashboard/proxy/api/packages/gcs/x.zip"
    kube.script(method, path, status(403, message, "Forbidden"), 403)
    with pytest.raises(PermissionMissing, match=f"No permission to {verb} services/proxy.*to {verb} services/proxy"):
        await client.proxy("services", "h", "dashboard", "ns", "/api/packages/gcs/x.zip", method=method)


async def test_pod_logs_are_streamed_as_bytes(client: KubeClient, kube: FakeKube):
    kube.script("GET", f"{PODS_PATH}/x/log", b"line 1\nline 2\n")
    blocks = [block async for block in client.logs("x", "ns", "ray-head", previous=True, tail_lines=5)]
    assert b"".join(blocks) == b"line 1\nline 2\n"
    assert kube.requests[-1].query == {"container": "ray-head", "previous": "true", "tailLines": "5"}
