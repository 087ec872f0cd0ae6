"""How a flight is told on a terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from dev import demo_kube
from dev.airflow_client import Change, Run, Task
from dev.flight_view import FlightView, matrix, progress, table
from dev.place import Place

PLACE = Place(Path("/some/kubeconfig"), "some/image:1", is_testbed=False)


def row(**changes: Any) -> dict[str, Any]:
    check = {"id": "pods-ready", "level": 1, "subject": "head", "expected": "Ready", "observed": "Ready"}
    return {**check, "verdict": "passed", "evidence": "", "next_step": "", **changes}


def test_the_matrix_has_a_line_per_check_and_the_next_step_of_what_failed():
    text = matrix([row(), row(id="devices", observed="0", verdict="failed", next_step="look at the device plugin")])
    lines = text.splitlines()
    assert lines[0].split() == ["level", "check", "subject", "expected", "observed", "verdict"]
    assert lines[-1] == "devices: look at the device plugin"
    assert sum(line.endswith("passed") for line in lines) == 1


def test_pods_are_told_without_the_name_of_their_cluster():
    assert "pod gpu-worker-x on gpu-1" in matrix([row(subject="pod rf-a-1-gpu-worker-x on gpu-1")], "rf-a-1")


def test_no_verification_is_said_as_such():
    assert matrix([]) == "no verification was recorded"


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ('{"epoch": 3, "accuracy": 0.971234}', "epoch 3, accuracy 0.9712"),
        ("half way", "half way"),
        ("[1, 2]", "[1, 2]"),
    ],
)
def test_progress_is_told_in_words(report: str, told: str):
    assert progress(report) == told


def test_a_table_aligns_its_columns():
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\n---  --\nccc  d"


class OneRun:
    """The client of a run that trained two epochs and then failed; refuses everything that the view need not ask."""

    def watch(self, run: Run, idle: Any) -> Any:
        yield Change(0.0, None, "running")
        idle([self.task("deferred")])
        idle([self.task("deferred")])
        yield Change(0.0, self.task("failed"), "failed")
        yield Change(0.0, None, "failed")

    def task(self, state: str) -> Task:
        return Task("flight.train", -1, state, 1, None, None, None)

    def log(self, run: Run, task_id: str, map_index: int, try_number: int) -> str:
        return 'x\nRAYFLIGHT_PROGRESS {"epoch": 1}\nRAYFLIGHT_PROGRESS {"epoch": 2}\n'

    def failure(self, run: Run, task: Task) -> str:
        return "JobFailed: exit code 7"


def test_progress_is_shown_once_and_the_cause_is_kept(capsys: pytest.CaptureFixture[str]):
    view = FlightView(OneRun(), Run("train_ddp", "r"))  # type: ignore[arg-type]
    assert view.follow() == "failed"
    shown = capsys.readouterr().out
    assert [shown.count(f"training: epoch {number}") for number in (1, 2)] == [1, 1]
    assert view.cause() == "JobFailed: exit code 7"


@pytest.mark.parametrize(
    ("trained", "landed", "problems"),
    [
        ({"submission_id": "s", "status": "SUCCEEDED"}, {"gpu_seconds": 9.0, "kept": [], "clusters": ["x"]}, 0),
        ({"submission_id": "s", "status": "FAILED"}, {"gpu_seconds": 9.0, "kept": [], "clusters": ["x"]}, 1),
        ({"submission_id": "s", "status": "SUCCEEDED"}, {"gpu_seconds": 9.0, "kept": ["ns/x"], "clusters": ["x"]}, 1),
        (None, None, 2),
    ],
)
def test_the_demo_calls_only_a_whole_flight_landed(trained: Any, landed: Any, problems: int):
    assert len(demo_kube.judge_training(trained) + demo_kube.tell_landing(landed)) == problems


def test_an_own_cluster_needs_an_own_image(capsys: pytest.CaptureFixture[str]):
    assert demo_kube.main(["--kubeconfig", "/some/kubeconfig"]) == 1
    assert "IMAGE" in capsys.readouterr().err


def test_the_trigger_form_is_filled_from_the_command_line():
    options = argparse.Namespace(shape="gpu-2x1", set=["epochs=2", "verify=false", 'claim="data"'])
    assert demo_kube.conf(options, PLACE) == {
        "image": "some/image:1",
        "shape": "gpu-2x1",
        "epochs": 2,
        "verify": False,
        "claim": "data",
    }
