"""The test of a connection against a real API server: one sentence about what works, or what does not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import PermissionMissing, TokenRefused
from rayflight.kube.access import KubeAccess
from testbed.api import ApiServer
from tests.api.backend.test_permissions import NEEDED, Grant


async def test_all_is_there(access: KubeAccess, namespace: str):
    async with KubernetesBackend(replace(access, namespace=namespace)) as backend:
        said = await backend.checkup()
    assert "serves ray.io/v1 (KubeRay)" in said
    assert said.endswith(f"in namespace {namespace} there are all rights.")


async def test_what_only_dims_the_view_is_said(with_rights: Grant):
    async with KubernetesBackend(with_rights(NEEDED)) as backend:
        said = await backend.checkup()
    assert "all rights that a flight needs, but no permission to" in said
    assert "nodes: what can never fit" in said


async def test_what_is_missing_is_named(with_rights: Grant):
    async with KubernetesBackend(with_rights(NEEDED[:1])) as backend:
        with pytest.raises(PermissionMissing, match="it may not list, watch pods"):
            await backend.checkup()


async def test_a_token_proves_who_asks_instead_of_the_kubeconfigs_user(
    with_rights: Grant, new_kuberay: ApiServer, namespace: str
):
    granted = with_rights(NEEDED)
    assert granted.inline is not None
    token = granted.inline["users"][0]["user"]["token"]
    admin = json.loads(new_kuberay.kubeconfig.read_text())
    async with KubernetesBackend(KubeAccess(inline=admin, token=token, namespace=namespace)) as backend:
        assert "no permission to" in await backend.checkup()
    async with KubernetesBackend(KubeAccess(inline=admin, token="no-such-token", namespace=namespace)) as backend:
        with pytest.raises(TokenRefused):
            await backend.checkup()
