"""What the connection may not do is named before anything is created; what only dims the view is a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import ApiUnreachable, InvalidSpec, PermissionMissing, TokenRefused
from rayflight.kube.access import KubeAccess
from testbed.api import ApiServer
from tests.api.backend.conftest import a_spec, an_owner, with_token

Grant = Callable[[list[dict[str, Any]]], KubeAccess]
CLUSTER_VERBS = ["get", "list", "watch", "create", "patch", "delete"]
NEEDED = [
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": CLUSTER_VERBS},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get", "create", "update"]},
]


async def test_missing_permissions_are_all_named_at_once(with_rights: Grant, namespace: str):
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "list", "watch"]}]
    async with KubernetesBackend(with_rights(rules)) as backend:
        with pytest.raises(PermissionMissing) as caught:
            await backend.preflight(a_spec(), namespace)
    said = str(caught.value)
    assert "create, patch, delete rayclusters.ray.io" in said
    assert "list, watch pods" in said
    assert "get, create, update services/proxy" in said
    assert namespace in said


async def test_what_only_dims_the_view_is_a_warning_and_a_gap(with_rights: Grant, namespace: str):
    async with KubernetesBackend(with_rights(NEEDED)) as backend:
        warnings = await backend.preflight(a_spec(), namespace)
        ref = await backend.create(a_spec(), an_owner(), namespace)
        snapshot = await backend.observe(ref)
    assert any("nodes" in line and "never fit" in line for line in warnings)
    assert any("events" in line for line in warnings)
    assert snapshot.cluster is not None
    gaps = {gap.source: gap.why for gap in snapshot.gaps}
    assert set(gaps) == {"nodes", "events", "quotas", "claims", "services", "ray"}
    assert "No permission to list nodes" in gaps["nodes"]


async def test_what_may_not_be_created_names_verb_resource_namespace_and_user(with_rights: Grant, namespace: str):
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get"]}]
    async with KubernetesBackend(with_rights(rules)) as backend:
        with pytest.raises(PermissionMissing) as caught:
            await backend.create(a_spec(), an_owner(), namespace)
    said = str(caught.value)
    assert all(
        part in said for part in ("create", "rayclusters.ray.io", namespace, f"serviceaccount:{namespace}:flyer")
    )


async def test_token_mode_needs_secrets(with_rights: Grant, namespace: str):
    async with KubernetesBackend(with_rights(NEEDED)) as backend:
        with pytest.raises(PermissionMissing, match="get, create secrets"):
            await backend.preflight(a_spec(auth="token"), namespace)


async def test_nothing_readable_at_all_raises(with_rights: Grant, namespace: str, backend: KubernetesBackend):
    ref = await backend.create(a_spec(), an_owner(), namespace)
    async with KubernetesBackend(with_rights([])) as blind:
        with pytest.raises(PermissionMissing):
            await blind.observe(ref)


async def test_what_the_pods_need_must_be_there(backend: KubernetesBackend, new_kuberay: ApiServer, namespace: str):
    api = new_kuberay.client
    api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "s3"}, "stringData": {"id": "x"}})
    spec = a_spec(
        image_pull_secrets=["registry"],
        priority_class="urgent",
        service_account="trainer",
        env_from_secrets={"A": {"secret": "s3", "key": "id"}, "B": {"secret": "s3", "key": "password"}},
        storage={"claim": "checkpoints"},
    )
    with pytest.raises(InvalidSpec) as caught:
        await backend.preflight(spec, namespace)
    said = str(caught.value)
    missing = ("secret registry", "priorityclass urgent", "serviceaccount trainer")
    assert all(f"no {name}" in said for name in (*missing, "persistentvolumeclaim checkpoints", "key password in"))
    assert "key id" not in said


async def test_a_namespace_that_is_not_there_is_named(backend: KubernetesBackend):
    with pytest.raises(InvalidSpec, match="No such namespace: nowhere"):
        await backend.preflight(a_spec(), "nowhere")


async def test_a_namespace_that_the_connection_does_not_allow_is_refused(access: KubeAccess, namespace: str):
    narrow = KubeAccess(kubeconfig=access.kubeconfig, allowed_namespaces=("team-a", "team-b"))
    async with KubernetesBackend(narrow) as backend:
        with pytest.raises(InvalidSpec, match="allows team-a, team-b"):
            await backend.create(a_spec(), an_owner(), namespace)


async def test_a_wrong_token_is_said_as_such(new_kuberay: ApiServer):
    async with KubernetesBackend(with_token(new_kuberay, "no-such-token")) as backend:
        with pytest.raises(TokenRefused, match="renew the token"):
            await backend.preflight(a_spec(), "default")


async def test_an_api_server_that_is_not_there_is_named_within_seconds():
    context = {"name": "c", "context": {"cluster": "c"}}
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    config = {"current-context": "c", "contexts": [context], "clusters": [cluster]}
    async with KubernetesBackend(KubeAccess(inline=config)) as backend:
        with pytest.raises(ApiUnreachable, match=r"https://127\.0\.0\.1:1"):
            await backend.preflight(a_spec(), "default")


async def test_a_server_with_another_authority_is_refused_at_once(new_kuberay: ApiServer, tmp_path):
    import json  # noqa: PLC0415 - only here

    config = json.loads(new_kuberay.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    async with KubernetesBackend(KubeAccess(inline=config)) as backend:
        with pytest.raises(ApiUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await backend.find("default", "")
