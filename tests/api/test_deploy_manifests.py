"""deploy/kubernetes is accepted by a real API server as it stands, is enough to fly with, and keeps its quota."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import ApiUnreachable, RequestRejected
from rayflight.kube.access import KubeAccess
from testbed.api import ApiServer, api_server
from tests.api.backend.conftest import a_spec, an_owner, nothing_remains, with_token

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
ACCOUNTS = ("airflow-worker", "airflow-triggerer", "airflow-api-server")


def kubectl(server: ApiServer, *words: str, fine: bool = True) -> str:
    command = [str(server.kubectl), "--kubeconfig", str(server.kubeconfig), *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 or not fine, ran.stderr
    return str(ran.stdout)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server("1.6.0", tmp_path_factory.mktemp("deploy")) as running:
        running.client.create("/api/v1/namespaces", {"metadata": {"name": "airflow"}})
        for name in ACCOUNTS:
            running.client.create("/api/v1/namespaces/airflow/serviceaccounts", {"metadata": {"name": name}})
        kubectl(running, "apply", "--validate=strict", "--kustomize", str(DEPLOY))
        yield running


@pytest.fixture(params=ACCOUNTS)
def access(server: ApiServer, request: pytest.FixtureRequest) -> KubeAccess:
    path = f"/api/v1/namespaces/airflow/serviceaccounts/{request.param}/token"
    _, answer = server.client.request("POST", path, {"spec": {"expirationSeconds": 600}})
    return with_token(server, answer["status"]["token"], "ray")


def test_applying_it_again_changes_nothing(server: ApiServer):
    said = kubectl(server, "apply", "--kustomize", str(DEPLOY)).splitlines()
    assert len(said) == 11
    assert {line.rsplit(" ", 1)[1] for line in said} == {"unchanged"}


async def test_the_rights_are_enough_for_each_of_airflows_service_accounts(access: KubeAccess):
    async with KubernetesBackend(access) as backend:
        assert (await backend.checkup()).endswith("in namespace ray there are all rights.")
        assert await backend.preflight(a_spec(auth="token"), "ray") == []
        ref = await backend.create(a_spec(), an_owner(), "ray")
        assert [gap.source for gap in (await backend.observe(ref)).gaps] == ["ray"]
        await backend.delete(ref)
        await nothing_remains(backend, ref)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
async def test_ray_may_be_asked_by_every_method_that_is_used(access: KubeAccess, method: str):
    """The rights are judged before anybody looks whether there is such a service: PUT is how code is uploaded."""
    async with KubernetesBackend(access) as backend:
        with pytest.raises(ApiUnreachable, match='services "no-head-svc" not found'):
            await backend._client.proxy("services", "no-head-svc", "dashboard", "ray", "/api/packages/x", method=method)


@pytest.mark.parametrize(
    ("verb", "resource", "namespace"),
    [
        ("delete", "services", "ray"),
        ("get", "pods", "ray"),
        ("create", "pods", "ray"),
        ("list", "secrets", "ray"),
        ("create", "pods/exec", "ray"),
        ("get", "secrets", "airflow"),
        ("create", "rayclusters.ray.io", "airflow"),
    ],
)
def test_nothing_else_is_allowed(server: ApiServer, verb: str, resource: str, namespace: str):
    user = f"--as=system:serviceaccount:airflow:{ACCOUNTS[0]}"
    assert kubectl(server, "auth", "can-i", verb, resource, "-n", namespace, user, fine=False).strip() == "no"


async def test_what_the_quota_refuses_is_said(server: ApiServer):
    """The controller that counts what is used does not run here: this test says that all of it is used."""
    quota = "/api/v1/namespaces/ray/resourcequotas/team"
    _, stored = server.client.request("GET", quota)
    stored["status"] = {"hard": stored["spec"]["hard"], "used": {**stored["spec"]["hard"]}}
    assert server.client.request("PUT", f"{quota}/status", stored)[0] == 200
    async with KubernetesBackend(KubeAccess(kubeconfig=str(server.kubeconfig))) as backend:
        with pytest.raises(RequestRejected, match=r"exceeded quota: team.*count/rayclusters\.ray\.io=1"):
            await backend.create(a_spec(), an_owner(), "ray")
    assert server.client.request("POST", "/api/v1/namespaces/ray/pods?dryRun=All", gpu_pod())[0] == 403


def gpu_pod() -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "cpu": "1", "memory": "1Gi"}
    container = {"name": "ray", "image": "ray", "resources": {"limits": limits}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
