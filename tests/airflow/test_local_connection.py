"""The connection decides where a flight goes; nothing else in a DAG file does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from airflow.providers.cncf.kubernetes.get_provider_info import get_provider_info as kubernetes_provider

from rayflight.airflow import access
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.backends.local import LocalBackend
from rayflight.backends.local_access import LocalAccess
from rayflight.errors import InvalidSpec
from rayflight.get_provider_info import get_provider_info


def test_the_extra_backend_chooses_the_place(tmp_path: Path) -> None:
    extras = {"backend": "local", "folder": str(tmp_path), "ray": "/opt/ray/bin/ray", "network": "host"}
    found = access.from_extras("c", extras)
    assert found == LocalAccess(folder=tmp_path, ray="/opt/ray/bin/ray", network="host")
    assert isinstance(access.backend(found), LocalBackend)
    assert isinstance(access.backend(access.from_extras("c", {})), KubernetesBackend)
    assert isinstance(access.backend(access.from_extras("c", {"backend": "kubernetes"})), KubernetesBackend)


def test_without_a_folder_it_lies_in_airflows_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayflight.airflow.settings.home", lambda: Path("/air/flow"))
    found = access.from_extras("c", {"backend": "local"})
    assert isinstance(found, LocalAccess)
    assert found.folder == Path("/air/flow/rayflight-local")


@pytest.mark.parametrize(
    ("extras", "why"),
    [
        ({"backend": "lokal"}, "backend is 'lokal', it must be one of kubernetes, local"),
        ({"backend": "local", "network": "open"}, "network is 'open', it must be one of fenced, host"),
    ],
)
def test_a_slip_of_the_pen_is_one_sentence(extras: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidSpec, match=f"Unusable connection 'c': {why}"):
        access.from_extras("c", extras)


@pytest.mark.parametrize(
    ("extras", "why"),
    [
        ({"kube_config_pth": "/etc/kube"}, "kube_config_pth: unknown extra, did you mean 'kube_config_path'?"),
        ({"extra__kubernetes__namespce": "ml"}, "namespce: unknown extra, did you mean 'namespace'?"),
        ({"backend": "local", "foldr": "/x"}, "foldr: unknown extra, did you mean 'folder'?"),
        ({"colour": "red"}, "colour: unknown extra. Next: correct its extras"),
        ({"kube_config_path": "/etc/kube", "in_cluster": True}, "kube_config_path and in_cluster are set"),
        ({"kube_config_path": "/etc/kube", "kube_config": "{}"}, "kube_config_path and kube_config are set"),
    ],
)
def test_an_extra_that_nobody_reads_or_that_contradicts_another_is_refused(extras: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        access.from_extras("c", extras)
    assert f"Unusable connection 'c': {why}" in str(refused.value)


def test_every_extra_of_the_forms_is_known() -> None:
    """Ours, and those of Airflow's own Kubernetes connections, used or not."""
    theirs = next(
        kind["conn-fields"]
        for kind in kubernetes_provider()["connection-types"]
        if kind["connection-type"] == "kubernetes"
    )
    ours = get_provider_info()["connection-types"][0]["conn-fields"]
    for extra in {*theirs, *ours} - {
        "backend",
        "dashboard",
        "network",
        "kube_config",
        "in_cluster",
        "kubernetes_conn_id",
    }:
        access.from_extras("c", {extra: "false"})


def test_the_test_button_refuses_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ray = tmp_path / "ray"
    ray.touch(mode=0o755)
    backend = access.backend(
        access.from_extras("c", {"backend": "local", "folder": str(tmp_path / "file" / "x"), "ray": str(ray)})
    )
    with pytest.raises(InvalidSpec, match=r"Cannot write to the folder of local clusters .*/file is no folder"):
        asyncio.run(backend.checkup())
