"""A build is kept as long as nothing that decides it changes."""

import pytest

from testbed.build import build_key, kuberay
from testbed.errors import TestbedError


@pytest.fixture
def module(tmp_path):
    (tmp_path / "go.mod").write_text("module m\n")
    (tmp_path / "go.sum").write_text("")
    (tmp_path / "cmd").mkdir()
    (tmp_path / "cmd" / "main.go").write_text("package main\n")
    return tmp_path


def test_the_same_sources_have_the_same_key(module):
    (module / "README.md").write_text("not built")
    assert build_key(module, (".",), "", "go1.26") == build_key(module, (".",), "", "go1.26")


@pytest.mark.parametrize("path", ["go.mod", "go.sum", "cmd/main.go"])
def test_a_changed_file_changes_the_key(module, path):
    before = build_key(module, (".",), "", "go1.26")
    (module / path).write_text((module / path).read_text() + "// changed\n")
    assert build_key(module, (".",), "", "go1.26") != before


def test_packages_link_flags_and_go_version_are_part_of_the_key(module):
    keys = {
        build_key(module, (".",), "", "go1.26"),
        build_key(module, (".", "./cmd/other"), "", "go1.26"),
        build_key(module, (".",), "-X a=b", "go1.26"),
        build_key(module, (".",), "", "go1.27"),
    }
    assert len(keys) == 4


def test_a_kuberay_version_that_is_not_built_here_is_named():
    with pytest.raises(TestbedError, match=r"KubeRay 1\.7\.0 is not one the testbed builds; choose 1\.6\.0 or 1\.5\.0"):
        kuberay("1.7.0")
