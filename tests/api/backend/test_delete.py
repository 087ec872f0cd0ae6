"""Deletion is by UID and says what is left; an old attempt's late deletion hits nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.backends.kubernetes import KubernetesBackend
from testbed.api import ApiServer
from tests.api.backend.conftest import a_spec, an_owner


async def test_a_late_deletion_does_not_hit_the_next_cluster_of_that_name(backend: KubernetesBackend, namespace: str):
    old = await backend.create(a_spec(), an_owner(), namespace)
    await backend.delete(old)
    new = await backend.create(a_spec(), an_owner(), namespace)
    await backend.delete(old)
    assert await backend.find(namespace, an_owner().flight_selector()) == [new]
    assert await backend.remains(old) == []


async def test_deleting_twice_is_silent(backend: KubernetesBackend, namespace: str):
    ref = await backend.create(a_spec(), an_owner(), namespace)
    await backend.delete(ref)
    await backend.delete(ref)
    assert (await backend.observe(ref)).cluster is None


async def test_pods_services_and_secrets_of_the_cluster_are_named_until_they_are_gone(
    backend: KubernetesBackend, new_kuberay: ApiServer, namespace: str
):
    """There is no garbage collector here, so what a cluster owned stays until the test removes it."""
    ref = await backend.create(a_spec(), an_owner(), namespace)
    api, path = new_kuberay.client, f"/api/v1/namespaces/{namespace}"
    api.create(f"{path}/pods", {**a_pod(ref, "head-1"), "metadata": {**a_pod(ref, "head-1")["metadata"]}})
    api.create(f"{path}/services", {**owned(ref, "head-svc"), "spec": {"ports": [{"port": 8265}]}})
    api.create(f"{path}/secrets", owned(ref, ref.name))
    foreign = ClusterRef(namespace=namespace, name=ref.name, uid="00000000-0000-0000-0000-000000000000")
    api.create(f"{path}/pods", a_pod(foreign, "somebody-else"))
    await backend.delete(ref)
    left = await backend.remains(ref)
    assert left == ["pod head-1 (Pending)"]
    api.delete(f"{path}/pods/head-1")
    async for _ in backend.changes(ref, at_least_every=0.2):
        left = await backend.remains(ref)
        if not any(line.startswith("pod head-1") for line in left):
            break
    assert sorted(left) == [f"secret {ref.name}", "service head-svc"]
    api.delete(f"{path}/services/head-svc")
    api.delete(f"{path}/secrets/{ref.name}")
    assert await backend.remains(ref) == []


@pytest.mark.parametrize("gone", [True, False])
async def test_absence_is_said_only_after_the_api_was_asked(backend: KubernetesBackend, namespace: str, *, gone: bool):
    watched = await backend.create(a_spec(), an_owner(run_id="other"), namespace)
    await backend.observe(watched)
    ref = await backend.create(a_spec(), an_owner(), namespace)
    if gone:
        await backend.delete(ref)
    assert ((await backend.observe(ref)).cluster is None) == gone


def owned(ref: ClusterRef, name: str) -> dict[str, Any]:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": ref.name, "uid": ref.uid, "controller": True}
    return {"metadata": {"name": name, "labels": {"ray.io/cluster": ref.name}, "ownerReferences": [owner]}}


def a_pod(ref: ClusterRef, name: str) -> dict[str, Any]:
    pod = owned(ref, name)
    pod["metadata"]["labels"]["ray.io/node-type"] = "head"
    return {**pod, "spec": {"containers": [{"name": "ray-head", "image": "x"}]}}
