"""The connection decides where a flight goes; nothing else in a DAG file does."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayflight.airflow import access
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.backends.local import LocalBackend
from rayflight.backends.local_access import LocalAccess
from rayflight.errors import InvalidSpec


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
