"""The roles of docs/permissions.md are enough: nothing is missing, nothing is dimmed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import PermissionMissing
from testbed.api import ApiServer
from tests.api.backend.conftest import a_spec, an_owner, nothing_remains
from tests.api.backend.test_permissions import Grant

TEXT = (Path(__file__).parents[3] / "docs/permissions.md").read_text()
ROLE, CLUSTER_ROLE = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))


def grant_cluster_role(server: ApiServer, namespace: str) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    server.client.create(f"{rbac}/clusterroles", CLUSTER_ROLE)
    subject = {"kind": "ServiceAccount", "name": "flyer", "namespace": namespace}
    name = CLUSTER_ROLE["metadata"]["name"]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": f"{name}-{namespace}"}, "subjects": [subject], "roleRef": role}
    server.client.create(f"{rbac}/clusterrolebindings", binding)


async def test_the_documented_roles_leave_no_warning_and_no_gap(
    with_rights: Grant, new_kuberay: ApiServer, namespace: str
):
    grant_cluster_role(new_kuberay, namespace)
    async with KubernetesBackend(with_rights(ROLE["rules"])) as backend:
        assert await backend.preflight(a_spec(auth="token"), namespace) == []
        ref = await backend.create(a_spec(), an_owner(), namespace)
        assert [gap.source for gap in (await backend.observe(ref)).gaps] == ["ray"]
        await backend.annotate(ref, {"rayflight.io/x": "1"})
        await backend.delete(ref)
        await nothing_remains(backend, ref)


async def test_the_namespaced_role_alone_only_dims_the_view(with_rights: Grant, namespace: str):
    async with KubernetesBackend(with_rights(ROLE["rules"])) as backend:
        warnings = await backend.preflight(a_spec(), namespace)
    assert [line.split(":")[0] for line in warnings] == ["no permission to list, watch nodes"]


@pytest.mark.parametrize("number", range(3))
async def test_each_needed_rule_is_really_needed(with_rights: Grant, namespace: str, number: int):
    rules = [rule for index, rule in enumerate(ROLE["rules"]) if index != number]
    async with KubernetesBackend(with_rights(rules)) as backend:
        with pytest.raises(PermissionMissing, match=ROLE["rules"][number]["resources"][0]):
            await backend.preflight(a_spec(), namespace)
