"""The records of local clusters: the authority, so they must never be half there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rayflight.backends.local_access import LocalAccess
from rayflight.backends.local_state import Records, matches, write_json
from rayflight.errors import ApiUnreachable, InvalidSpec

RECORD = {"uid": "u-1", "object": {"metadata": {"name": "c"}}}


@pytest.fixture
def records(tmp_path: Path) -> Records:
    made = Records(tmp_path / "clusters")
    with made.lock("default"):
        made.write("default", "c", RECORD)
    return made


def test_a_record_is_read_back_and_listed_by_namespace(records):
    assert records.read("default", "c") == RECORD
    assert records.list("default") == records.list() == [RECORD]
    assert records.list("other") == []
    assert records.read("default", "unknown") is None


def test_a_folder_on_its_way_out_is_no_record(records):
    records.path("default", "c").rename(records.path("default", ".gone-u-1"))
    assert records.list() == []


def test_nobody_else_can_read_a_record(records):
    assert records.path("default", "c").stat().st_mode & 0o077 == 0


def test_a_change_holds_only_for_this_uid(records):
    assert records.change("default", "c", "another", lambda cluster: cluster.update(changed=True)) is None
    assert "changed" not in records.read("default", "c")["object"]
    records.change("default", "c", "u-1", lambda cluster: cluster.update(changed=True))
    assert records.read("default", "c")["object"]["changed"] is True
    assert records.change("default", "gone", "u-1", dict.clear) is None


def test_a_write_that_breaks_off_leaves_the_old_record(records, monkeypatch):
    path = records.path("default", "c") / "cluster.json"
    with pytest.raises(TypeError):
        write_json(path, {"uid": "u-1", "object": object()})
    assert json.loads(path.read_text()) == RECORD


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    sentence = r"cannot write its records: .*file/clusters: Not a directory.*`folder`"
    with pytest.raises(ApiUnreachable, match=sentence), Records(tmp_path / "file" / "clusters").lock("default"):
        pass


@pytest.mark.parametrize(
    ("selector", "found"), [("", True), ("a=1", True), ("a=1,b=2", True), ("a=1,b=3", False), ("c=1", False)]
)
def test_selectors_are_equalities(selector, found):
    assert matches({"a": "1", "b": "2"}, selector) is found


def test_a_connection_names_folder_ray_and_namespaces(tmp_path):
    access = LocalAccess.from_extras(
        {"folder": "/state", "ray": "/opt/ray/bin/ray", "namespace": "team", "allowed_namespaces": "team, other"},
        home=tmp_path,
    )
    assert (str(access.folder), access.ray, access.network) == ("/state", "/opt/ray/bin/ray", "fenced")
    assert (access.allowed(), access.allowed("other")) == ("team", "other")
    with pytest.raises(InvalidSpec, match="allows team, other"):
        access.allowed("third")
    with pytest.raises(InvalidSpec, match="No name of a namespace"):
        access.allowed("../up")
    assert LocalAccess.from_extras({}, home=tmp_path).folder == tmp_path / "rayflight-local"
    with pytest.raises(ValueError, match="fenced, host"):
        LocalAccess.from_extras({"network": "open"}, home=tmp_path)
