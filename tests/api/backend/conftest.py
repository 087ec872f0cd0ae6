"""A real API server per KubeRay version, a namespace per test, and backends that reach it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from rayflight.backends.base import ClusterRef
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.kube.access import KubeAccess
from rayflight.labels import Owner
from rayflight.specs import ClusterSpec
from testbed.api import ApiServer, api_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def new_kuberay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """KubeRay 1.6.0: its CRD knows authOptions."""
    with api_server("1.6.0", tmp_path_factory.mktemp("kuberay-1.6")) as running:
        yield running


@pytest.fixture(scope="session")
def old_kuberay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """KubeRay 1.5.0: its CRD would drop authOptions without a word."""
    with api_server("1.5.0", tmp_path_factory.mktemp("kuberay-1.5")) as running:
        yield running


@pytest.fixture
def namespace(new_kuberay: ApiServer) -> str:
    return make_namespace(new_kuberay)


@pytest.fixture
def access(new_kuberay: ApiServer) -> KubeAccess:
    return KubeAccess(kubeconfig=str(new_kuberay.kubeconfig))


@pytest.fixture
async def backend(access: KubeAccess) -> AsyncIterator[KubernetesBackend]:
    async with KubernetesBackend(access) as entered:
        yield entered


@pytest.fixture
def with_rights(new_kuberay: ApiServer, namespace: str) -> Callable[[list[dict[str, Any]]], KubeAccess]:
    """A service account that may do just that in the test's namespace."""

    def grant(rules: list[dict[str, Any]]) -> KubeAccess:
        api, path = new_kuberay.client, f"/api/v1/namespaces/{namespace}"
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        api.create(f"{path}/serviceaccounts", {"metadata": {"name": "flyer"}})
        api.create(f"{rbac}/roles", {"metadata": {"name": "flyer"}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "flyer", "namespace": namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "flyer"}
        api.create(f"{rbac}/rolebindings", {"metadata": {"name": "flyer"}, "subjects": [subject], "roleRef": role})
        _, answer = api.request("POST", f"{path}/serviceaccounts/flyer/token", {"spec": {"expirationSeconds": 600}})
        return with_token(new_kuberay, answer["status"]["token"], namespace)

    return grant


def with_token(server: ApiServer, token: str, namespace: str = "default") -> KubeAccess:
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return KubeAccess(inline=config, namespace=namespace)


def make_namespace(server: ApiServer) -> str:
    name = f"team-{next(_numbers)}"
    server.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def a_spec(**more: Any) -> ClusterSpec:
    group = {"name": "gpu", "replicas": 2, "gpus": 1}
    return ClusterSpec.model_validate({"image": "ray:test", "ray_version": "2.60.0", "groups": [group], **more})


def an_owner(**more: Any) -> Owner:
    return Owner(**{"airflow": "here", "dag_id": "train", "run_id": "r1", "group": "training", **more})


async def nothing_remains(backend: KubernetesBackend, ref: ClusterRef) -> None:
    """Nothing of it is there, once the watch has heard what the API server has done already; else a time-out."""
    async with asyncio.timeout(10):
        async for _ in backend.changes(ref, at_least_every=0.1):
            if not await backend.remains(ref):
                return
