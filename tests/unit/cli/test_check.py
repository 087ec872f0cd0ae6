"""``rayflight check``: shape files are judged in CI, without a cluster."""

import pytest

from tests.unit.cli.running import Command
from tests.unit.docs.documents import DOCS


@pytest.fixture
def rayflight(monkeypatch, capsys):
    return Command(monkeypatch, capsys)


def test_the_shapes_of_the_project_are_in_order(rayflight):
    ran = rayflight("check", DOCS.parent / "include" / "clusters")
    assert (ran.code, ran.err) == (0, "")
    assert "gpu-2x1.yaml: 2 worker pods, 2 GPUs" in ran.out


def test_each_file_that_is_refused_is_named_with_what_was_meant(rayflight, tmp_path):
    (tmp_path / "a.yaml").write_text("imagee: x\ngroups: [{name: gpu}]\n")
    (tmp_path / "b.yaml").write_text("image: x\ngroups: [{name: gpu}]\n")
    (tmp_path / "c.yml").write_text("image: [\n")
    ran = rayflight("check", tmp_path)
    assert ran.code == 3
    assert "b.yaml: 1 worker pod, 0 GPUs" in ran.out
    first, second = ran.err.splitlines()
    assert "a.yaml" in first
    assert "imagee: unknown field, did you mean 'image'?" in first
    assert "No valid YAML" in second


@pytest.mark.parametrize("name", ["nothing.yaml", "empty"])
def test_what_is_not_there_is_bad_input(rayflight, tmp_path, name):
    (tmp_path / "empty").mkdir()
    ran = rayflight("check", tmp_path / name)
    assert ran.code == 3
    assert "Next:" in ran.err


def test_without_a_name_it_is_bad_input(rayflight):
    assert rayflight("check").code == 3
