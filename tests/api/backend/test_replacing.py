"""A worker pod is deleted by UID alone; a cluster that must avoid nodes is refused when it has no room without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import InvalidSpec, PermissionMissing
from rayflight.kube.access import KubeAccess
from rayflight.labels import AVOIDED
from testbed.api import ApiServer
from tests.api.backend.conftest import a_spec, an_owner

OFFERED = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "1"}


@pytest.fixture
def pod(new_kuberay: ApiServer, namespace: str) -> dict[str, Any]:
    body = {"metadata": {"name": "w-1"}, "spec": {"containers": [{"name": "ray-worker", "image": "ray:test"}]}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    new_kuberay.client.create(path, body)
    return new_kuberay.client.get(f"{path}/w-1")


def there(server: ApiServer, namespace: str) -> list[str]:
    return [item["metadata"]["uid"] for item in server.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]]


async def test_a_pod_is_deleted_by_uid_and_another_of_its_name_is_left_alone(
    backend: KubernetesBackend, new_kuberay: ApiServer, namespace: str, pod: dict[str, Any]
):
    ref = ClusterRef(namespace=namespace, name="c", uid="u")
    await backend.replace_pod(ref, "w-1", "00000000-0000-0000-0000-000000000000")
    assert there(new_kuberay, namespace) == [pod["metadata"]["uid"]]
    for _ in range(2):
        await backend.replace_pod(ref, "w-1", pod["metadata"]["uid"])
    assert there(new_kuberay, namespace) == []


async def test_without_the_right_it_is_said(
    with_rights: Callable[[list[dict[str, Any]]], KubeAccess], namespace: str, pod: dict[str, Any]
):
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    async with KubernetesBackend(with_rights(rules)) as backend:
        with pytest.raises(PermissionMissing, match="delete"):
            await backend.replace_pod(ClusterRef(namespace=namespace, name="c", uid="u"), "w-1", pod["metadata"]["uid"])


@pytest.fixture
def nodes(new_kuberay: ApiServer) -> Iterator[Callable[..., None]]:
    """Ready Kubernetes nodes with one GPU each."""
    api, made = new_kuberay.client, []

    def make(*names: str) -> None:
        for name in names:
            api.create("/api/v1/nodes", {"metadata": {"name": name}})
            made.append(name)
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-12-01T10:00:00Z"}
            api.patch(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": OFFERED, "conditions": [ready]}})
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    yield make
    for name in made:
        api.delete(f"/api/v1/nodes/{name}")


async def test_a_cluster_keeps_away_from_nodes_by_name_and_says_so(
    backend: KubernetesBackend, namespace: str, nodes: Callable[..., None]
):
    nodes("n-1", "n-2", "n-3")
    ref = await backend.create(a_spec(), an_owner(), namespace, avoid=["n-3"])
    assert ref.annotations[AVOIDED] == "n-3"
    assert await backend.create(a_spec(), an_owner(), namespace, avoid=["n-3"]) == ref
    assert await backend.create(a_spec(), an_owner(), namespace) == ref  # adopted: it is the same attempt's
    await backend.delete(ref)


async def test_a_cluster_without_room_on_the_healthy_nodes_is_refused_and_not_created(
    backend: KubernetesBackend, namespace: str, nodes: Callable[..., None]
):
    nodes("n-1", "n-2")
    with pytest.raises(InvalidSpec, match=r"without n-2, which failed .* room for 1 of 2 pods \(n-1: 1\)"):
        await backend.create(a_spec(), an_owner(), namespace, avoid=["n-2"])
    assert await backend.find(namespace, an_owner().flight_selector()) == []
