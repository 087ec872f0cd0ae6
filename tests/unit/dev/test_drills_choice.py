"""Which drills are flown where: a real cluster is touched only by who says so twice, and only within a namespace."""

from __future__ import annotations

import pytest

from dev.drills import __main__ as drills
from dev.drills.table import read

REAL = ["--kubeconfig", "config", "--image", "ray:1", "--namespace", "mine"]


def names(*arguments: str) -> set[str]:
    return {drill.name for drill in drills.chosen(read(), drills.options(arguments))}


@pytest.mark.parametrize("confirmed", [[], ["--confirm", "yes"], ["--confirm", "other"]])
def test_a_real_cluster_is_not_touched_until_its_namespace_is_confirmed(confirmed: list[str], capsys):
    assert drills.main([*REAL, *confirmed]) == 1
    assert "Confirm with CONFIRM=mine" in capsys.readouterr().err


def test_a_real_cluster_needs_namespace_and_image(capsys):
    assert drills.main(["--kubeconfig", "config"]) == 1
    assert "NAMESPACE and IMAGE are missing" in capsys.readouterr().err


def test_on_a_real_cluster_no_node_and_no_component_is_broken():
    flown = names(*REAL)
    assert {"wrong-image", "head-pod-lost", "exit-code-7"} <= flown
    assert not {"quota", "node-drained", "gcs-killed", "api-server-down", "duplicate-submission"} & flown


def test_what_needs_kueue_is_left_out_without_it():
    queued = {drill.name for drill in read() if drill.needs == "kueue"}
    assert "kueue-preempted" in queued
    assert not queued & names()
    assert names("--having", "kueue") == {drill.name for drill in read()}


def test_only_and_quick_choose():
    assert names("--only", "taint,quota", "--only", "selector") == {"taint", "quota", "selector"}
    assert names("--quick") == {drill.name for drill in read() if drill.quick}


def test_nothing_is_flown_for_a_name_that_is_none(capsys):
    assert drills.main(["--only", "nonesuch"]) == 1
    assert "no such drill" in capsys.readouterr().err
