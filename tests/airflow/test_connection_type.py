"""Connections of type ``rayflight``: Airflow's provider manager shows the form, and its Test button tells the truth."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.models import Connection
from airflow.providers_manager import ProvidersManager

from rayflight.airflow import access
from rayflight.airflow.hook import RayflightHook
from rayflight.backends.local_access import LocalAccess
from rayflight.errors import InvalidSpec, PermissionMissing
from rayflight.get_provider_info import get_provider_info
from rayflight.kube.access import KubeAccess
from tests.world import World

FIELDS: dict[str, Any] = get_provider_info()["connection-types"][0]["conn-fields"]
DOCUMENT = (Path(__file__).parents[2] / "docs" / "connections.md").read_text()


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Connections as environment variables, which is also how Airflow's own test of a connection hands them over."""

    def add(conn_id: str, kind: str = "rayflight", **extra: Any) -> Connection:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": kind, "extra": extra}))
        return Connection(conn_id=conn_id, conn_type=kind, extra=json.dumps(extra))

    return add


def test_airflow_shows_every_field_in_its_form():
    manager = ProvidersManager()
    hook = manager.hooks["rayflight"]
    assert hook is not None
    assert (hook.hook_name, hook.hook_class_name) == ("Rayflight", "rayflight.airflow.hook.RayflightHook")
    shown = {name for name in manager.connection_form_widgets if name.startswith("extra__rayflight__")}
    assert shown == {f"extra__rayflight__{name}" for name in FIELDS}
    assert set(manager.field_behaviours["rayflight"]["hidden_fields"]) >= {"host", "login", "password", "port"}


def test_secrets_are_password_fields_and_choices_are_lists():
    secret = {name for name, field in FIELDS.items() if field["schema"].get("format") == "password"}
    assert secret == {"token", "kube_config"}
    assert FIELDS["dashboard"]["schema"]["enum"] == ["proxy", "direct"]
    assert FIELDS["backend"]["schema"]["enum"] == list(access._KINDS)


def test_every_field_is_documented():
    assert set(FIELDS) <= set(re.findall(r"`(\w+)`", DOCUMENT))


def test_a_form_of_which_nothing_was_filled_in_is_the_default_access(connection: Any):
    empty = {name: field["schema"].get("default", "") for name, field in FIELDS.items()} | {"in_cluster": False}
    connection("team", **empty)
    assert access.access("team") == KubeAccess()


def test_the_access_of_a_named_kubernetes_connection_is_used(connection: Any):
    connection("base", "kubernetes", extra__kubernetes__kube_config_path="/etc/kube", namespace="old", in_cluster=None)
    connection(
        "team",
        kubernetes_conn_id="base",
        namespace="ml",
        allowed_namespaces="ml, ml-2",
        in_cluster=False,
        token="secret",
    )
    made = access.access("team")
    wanted = KubeAccess(kubeconfig="/etc/kube", namespace="ml", allowed_namespaces=("ml", "ml-2"), token="secret")
    assert made == wanted
    assert asyncio.run(access.aaccess("team")) == made
    assert "secret" not in repr(made)


def test_credentials_beside_a_named_connection_are_refused(connection: Any):
    connection("base", "kubernetes", in_cluster=True)
    connection("team", kubernetes_conn_id="base", kube_config_path="/etc/kube")
    with pytest.raises(InvalidSpec, match="kubernetes_conn_id and kube_config_path are both set"):
        access.access("team")


def test_a_named_connection_that_is_not_there_is_said(connection: Any):
    connection("team", kubernetes_conn_id="nowhere")
    with pytest.raises(InvalidSpec, match="'nowhere': Airflow has no connection of this id"):
        access.access("team")


def test_local_is_a_choice_of_the_same_form(connection: Any, tmp_path: Path):
    connection("laptop", backend="local", folder=str(tmp_path), dashboard="proxy", network="fenced")
    made = access.access("laptop")
    assert isinstance(made, LocalAccess)
    assert made.folder == tmp_path


def test_the_test_button_says_what_works(connection: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access, "backend", lambda _: World())
    assert connection("team").test_connection() == (True, "All is well.")


def test_the_test_button_says_in_one_sentence_what_does_not(connection: Any, monkeypatch: pytest.MonkeyPatch):
    class Refusing(World):
        async def checkup(self) -> str:
            raise PermissionMissing("No permission", why="nothing is allowed", next_step="ask")

    monkeypatch.setattr(access, "backend", lambda _: Refusing())
    assert connection("team").test_connection() == (False, "No permission: nothing is allowed. Next: ask")


def test_the_test_button_looks_at_the_archive_too(connection: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access, "backend", lambda _: World())
    worked, said = connection("team", archive="bucket/path").test_connection()
    assert (worked, "it is not a URL" in said) == (False, True)


@pytest.mark.skipif(importlib.util.find_spec("s3fs") is not None, reason="s3fs is installed here")
def test_the_test_button_names_the_package_that_the_archive_needs(connection: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access, "backend", lambda _: World())
    worked, said = connection("team", archive="s3://bucket/path").test_connection()
    assert (worked, "Next: pip install 'apache-airflow-providers-amazon[s3fs]'" in said) == (False, True)


def test_an_api_server_that_is_not_there_is_named(connection: Any):
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    }
    worked, said = connection("team", kube_config=json.dumps(kubeconfig)).test_connection()
    assert (worked, "https://127.0.0.1:1" in said) == (False, True)


def test_the_hook_gives_a_backend(connection: Any):
    connection("team", namespace="ml")
    assert RayflightHook("team").get_conn().name == "kubernetes"
