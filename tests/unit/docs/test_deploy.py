"""deploy/ says what the documents and the code say."""

from __future__ import annotations

import json
from typing import Any

import yaml

from rayflight.get_provider_info import get_provider_info
from tests.unit.docs.documents import DOCS, blocks

DEPLOY = DOCS.parent / "deploy"
RBAC = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "rbac.yaml").read_text()))
VALUES = yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text())


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (item for item in RBAC if item["kind"] == kind)
    return dict(found)


def test_the_roles_are_those_of_the_document():
    documented = [yaml.safe_load(block) for block in blocks("permissions.md", "yaml")]
    assert [item["rules"] for item in documented] == [of_kind("Role")["rules"], of_kind("ClusterRole")["rules"]]


def test_each_binding_binds_the_role_beside_it():
    for kind in ("Role", "ClusterRole"):
        assert of_kind(f"{kind}Binding")["roleRef"]["kind"] == kind
        assert of_kind(f"{kind}Binding")["roleRef"]["name"] == of_kind(kind)["metadata"]["name"]


def test_the_chart_makes_the_service_accounts_that_are_bound():
    made = {VALUES[part]["serviceAccount"]["name"] for part in ("workers", "triggerer", "apiServer")}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        assert {subject["name"] for subject in of_kind(kind)["subjects"]} == made


def test_the_charts_settings_exist():
    options = get_provider_info()["config"]["rayflight"]["options"]
    assert set(VALUES["config"]["rayflight"]) <= set(options)


def test_the_charts_connection_has_fields_of_the_form_and_the_namespace_that_is_made():
    given = next(json.loads(item["value"]) for item in VALUES["env"] if item["name"].startswith("AIRFLOW_CONN_"))
    (kind,) = get_provider_info()["connection-types"]
    assert given["conn_type"] == kind["connection-type"]
    assert set(given["extra"]) <= set(kind["conn-fields"])
    assert given["extra"]["namespace"] == of_kind("Role")["metadata"]["namespace"]
