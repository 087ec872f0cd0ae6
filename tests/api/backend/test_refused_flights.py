"""CreateRayCluster on a real API server: what the connection cannot do ends in one sentence; nothing is created."""

from __future__ import annotations

import copy
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rayflight.airflow import CreateRayCluster
from rayflight.errors import ApiUnreachable, InvalidSpec, PermissionMissing, RayflightError, TokenRefused
from testbed.api import ApiServer
from testbed.process import wait_until
from tests.api.backend.test_permissions import Grant
from tests.fake_context import a_context, assert_one_sentence

SHAPE: dict[str, Any] = {
    "image": "train:1",
    "ray_version": "2.60.0",
    "auth": "token",
    "groups": [{"name": "gpu", "replicas": 2, "gpus": 1}],
}
Config = dict[str, Any]
Provision = Callable[..., dict[str, Any]]


@pytest.fixture
def provision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Provision:
    """Execute the operator alone, as a task does, over a connection with this kubeconfig."""

    def execute(config: object, **given: Any) -> dict[str, Any]:
        connection = {"conn_type": "kubernetes", "extra": {"kube_config": config}}
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
        task = CreateRayCluster(task_id="provision", **{"cluster": SHAPE, "archive": tmp_path.as_uri(), **given})
        return task.execute(a_context(task_id="provision", run_id=tmp_path.name))

    return execute


@pytest.fixture
def config(new_kuberay: ApiServer) -> Config:
    loaded: Config = json.loads(new_kuberay.kubeconfig.read_text())
    return loaded


@pytest.fixture
def nothing_is_created(new_kuberay: ApiServer) -> Iterator[None]:
    before = everything(new_kuberay)
    yield
    assert everything(new_kuberay) == before


def everything(server: ApiServer) -> list[str]:
    """Whatever a flight could make, wherever."""
    # For a moment after its CRD was created, a kind is served but its storage is not there yet.
    assert wait_until(lambda: server.client.request("GET", "/apis/ray.io/v1/rayclusters")[0] == 200, 20)
    paths = ("/apis/ray.io/v1/rayclusters", "/api/v1/secrets", "/api/v1/pods", "/api/v1/services")
    items = [item for path in paths for item in server.client.get(path)["items"]]
    return sorted(item["metadata"]["uid"] for item in items)


def with_user(config: Config, user: Config) -> Config:
    changed = copy.deepcopy(config)
    changed["users"][0]["user"] = user
    return changed


def at(config: Config, server: str) -> Config:
    changed = copy.deepcopy(config)
    changed["clusters"][0]["cluster"] = {"server": server}
    return changed


def without_authority(config: Config) -> Config:
    return at(config, config["clusters"][0]["cluster"]["server"])


CONNECTIONS: dict[str, tuple[Callable[[Config], object], type[RayflightError], str]] = {
    "API server that is not there": (
        lambda config: at(config, "https://127.0.0.1:1"),
        ApiUnreachable,
        "The Kubernetes API did not answer at https://127.0.0.1:1 (get /version): [Errno 111] Connect call failed",
    ),
    "server without a scheme": (
        lambda config: at(config, "kubernetes:6443"),
        InvalidSpec,
        "Unusable server of the kubeconfig 'kubernetes:6443'",
    ),
    "foreign certificate": (
        without_authority,
        ApiUnreachable,
        "certificate verify failed: unable to get local issuer certificate",
    ),
    "wrong token": (
        lambda config: with_user(config, {"token": "no-such-token"}),
        TokenRefused,
        "The Kubernetes API refused the credentials at https://127.0.0.1:",
    ),
    "no credentials": (
        lambda config: with_user(config, {}),
        PermissionMissing,
        "Next: give the connection's kubeconfig a user: it came without credentials",
    ),
    "a list for a kubeconfig": (lambda _: [1], InvalidSpec, "kube_config holds a list, not a kubeconfig"),
    "no context": (lambda _: {"clusters": []}, InvalidSpec, "No context chosen: the kubeconfig has no current-context"),
    "no JSON": (lambda _: "{no json", InvalidSpec, "Unusable connection 'kubernetes_default': Expecting property name"),
}


@pytest.mark.usefixtures("nothing_is_created")
@pytest.mark.parametrize(("change", "kind", "sentence"), CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_a_connection_that_leads_nowhere_is_said_in_one_sentence(
    provision: Provision, config: Config, change: Callable[[Config], object], kind: type[RayflightError], sentence: str
):
    with pytest.raises(kind, match=re.escape(sentence)) as refused:
        provision(change(config))
    assert_one_sentence(refused.value)


SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "namespace that is not there": ({"namespace": "nowhere"}, "No such namespace: nowhere"),
    "claim that is not there": (
        {"job": {"entrypoint": "x", "storage": "checkpoints"}},
        "there is no persistentvolumeclaim checkpoints",
    ),
    "field that the CRD does not know": (
        {"cluster": {**SHAPE, "extra": {"nonsense": 1}}},
        "the installed RayCluster CRD does not know spec.nonsense",
    ),
    "label that Kubernetes refuses": ({"cluster": {**SHAPE, "labels": {"a b": "c"}}}, 'Invalid value: "a b"'),
}


@pytest.mark.usefixtures("nothing_is_created")
@pytest.mark.parametrize(("given", "sentence"), SPECS.values(), ids=SPECS.keys())
def test_what_the_cluster_cannot_take_is_named(
    provision: Provision, config: Config, given: dict[str, Any], sentence: str
):
    with pytest.raises(InvalidSpec, match=re.escape(sentence)) as refused:
        provision(config, **given)
    assert "Next: " in str(refused.value)


@pytest.mark.usefixtures("nothing_is_created")
def test_missing_permissions_are_named(provision: Provision, with_rights: Grant, namespace: str):
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "list", "watch"]}]
    with pytest.raises(PermissionMissing, match="it may not create, patch, delete rayclusters") as refused:
        provision(with_rights(rules).inline, namespace=namespace)
    assert namespace in str(refused.value)
    assert_one_sentence(refused.value)


@pytest.mark.usefixtures("nothing_is_created")
def test_a_server_that_takes_the_call_and_says_nothing_costs_seconds_not_minutes(provision: Provision, config: Config):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begin = time.monotonic()
        with pytest.raises(ApiUnreachable, match="no connection within 5 s") as refused:
            provision(at(config, f"https://127.0.0.1:{silent.getsockname()[1]}"))
    assert time.monotonic() - begin < 15
    assert_one_sentence(refused.value)


def test_the_same_operator_creates_where_all_is_well(provision: Provision, config: Config, new_kuberay: ApiServer):
    made = provision(config)
    assert made["uid"] in everything(new_kuberay)
