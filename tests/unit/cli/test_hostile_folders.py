"""Folders as shells, editors and strangers leave them: what can be read is read, the rest is a gap."""

import json
import tarfile

import pytest
import yaml

from tests.folders import write_moment
from tests.unit.cli.test_folders import judged


def _file(place, name="pods"):
    return place / f"{name}.json"


def _as_yaml(path, end="json"):
    text = yaml.safe_dump({"apiVersion": "v1", **json.loads(path.read_text())}, sort_keys=False)
    path.unlink()
    path.with_suffix(f".{end}").write_text(text)


FORMS = {
    "warnings of kubectl before it": lambda path: path.write_bytes(b"Warning: old API\n" + path.read_bytes()),
    "a byte that is no UTF-8": lambda path: path.write_bytes(path.read_bytes().replace(b'"Running"', b'"Running\xe9"')),
    "a byte order mark": lambda path: path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes()),
    "UTF-16 of a PowerShell": lambda path: path.write_bytes(path.read_text().encode("utf-16")),
    "YAML under the name of JSON": _as_yaml,
    "YAML": lambda path: _as_yaml(path, "yaml"),
    "yml": lambda path: _as_yaml(path, "yml"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_forms_that_a_shell_makes_are_read(run, tmp_path, form):
    place = write_moment(tmp_path / "x", "too-few-gpus-t046s")
    FORMS[form](_file(place, "nodes"))
    FORMS[form](_file(place))
    code, found = judged(run, place)
    assert (code, found["cause"]["id"]) == (1, "not-enough-in-total")
    assert not [gap for gap in found["gaps"] if gap.startswith(("pods", "nodes"))]


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\x00\x9f\xff" * 999, b"{'a': 1}", b"<html>502 Bad Gateway</html>"])
def test_what_is_no_answer_is_a_gap(run, tmp_path, data):
    place = write_moment(tmp_path / "x", "too-few-gpus-t046s")
    _file(place).write_bytes(data)
    code, found = judged(run, place)
    assert (code, found["verdict"]) == (2, "unknown")
    assert any(gap.startswith("pods: pods.json is no JSON") for gap in found["gaps"])


@pytest.mark.parametrize("case", ["[1]", '"x"', '{"cluster": ["c"], "namespace": 5}', "{"])
def test_a_case_file_that_names_nothing_is_passed_over(run, tmp_path, case):
    place = write_moment(tmp_path / "x", "healthy-t027s")
    (place / "case.json").write_text(case)
    assert judged(run, place)[1]["verdict"] == "healthy"


def test_a_tar_may_hold_its_folder_in_another(run, tmp_path):
    place = write_moment(tmp_path / "x", "healthy-t027s")
    (place / "case.json").write_text('{"cluster": "c"}')
    with tarfile.open(tmp_path / "b.tar.xz", "w:xz") as tar:
        tar.add(place, "home/me/bundle")
    assert judged(run, tmp_path / "b.tar.xz")[0] == 0


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_tar_with_links_outside_or_devices_is_refused(run, tmp_path, kind):
    odd = tarfile.TarInfo("pods.json")
    odd.type, odd.linkname = kind, "/etc/hostname"
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        tar.addfile(odd)
    assert run("diagnose", tmp_path / "b.tar").code == 3


def test_of_several_clusters_rays_addresses_or_the_manifest_tell_which(run, tmp_path):
    place = write_moment(tmp_path / "y" / "x", "healthy-t027s")
    file = _file(place, "rayclusters")
    both = json.loads(file.read_text())
    mine = both["items"][0]
    both["items"].insert(0, {**mine, "metadata": {**mine["metadata"], "name": "other", "uid": "u2"}})
    file.write_text(json.dumps(both))
    assert judged(run, place)[1]["verdict"] == "healthy"
    (place / "ray" / "nodes.json").unlink()
    assert run("diagnose", place).code == 3
    applied = {"kind": "RayCluster", "metadata": {"name": mine["metadata"]["name"]}, "spec": {}}
    (tmp_path / "y" / "manifest.yaml").write_text(yaml.safe_dump(applied))
    assert run("diagnose", tmp_path / "y").code == 2


def test_without_the_list_of_submissions_nobody_calls_it_healthy(run, tmp_path):
    place = write_moment(tmp_path / "x", "healthy-t027s")
    (place / "ray" / "jobs.json").unlink()
    code, found = judged(run, place)
    assert (code, found["verdict"]) == (2, "unknown")
    assert "ray.jobs: not collected" in found["gaps"]


def test_without_times_of_collection_moments_are_ordered_by_the_seconds_in_their_names(run, tmp_path):
    for name, moment in (("t-000s", "healthy-t027s"), ("t+008s", "quota-of-one-gpu-t044s")):
        write_moment(tmp_path / "x" / name, moment)
        (tmp_path / "x" / name / "collected.json").unlink()
    assert judged(run, tmp_path / "x", "--cluster", "c")[0] == 1


def test_of_several_clusters_the_only_ill_one_is_judged_and_named(run, tmp_path):
    place = write_moment(tmp_path / "x", "quota-of-one-gpu-t044s")
    file = _file(place, "rayclusters")
    both = json.loads(file.read_text())
    mine = both["items"][0]
    both["items"].append(
        {**mine, "metadata": {**mine["metadata"], "name": "other", "uid": "u2"}, "spec": {"suspend": True}}
    )
    file.write_text(json.dumps(both))
    for path in place.glob("ray/*"):
        path.unlink()
    ran = run("diagnose", "--json", place)
    assert ran.code == 3
    both["items"][1]["spec"] = {}
    both["items"][1]["status"] = {"observedGeneration": 1, "conditions": []}
    file.write_text(json.dumps(both))
    ran = run("diagnose", "--json", place)
    assert (ran.code, json.loads(ran.out)["cause"]["id"]) == (1, "quota-below-request")
    assert "judged is RayCluster c" in ran.err
