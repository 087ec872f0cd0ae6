"""The DAG of failure drills: a failed training is what it waits for, and only the wrong cause makes it red."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from rayflight.airflow import drills
from rayflight.errors import InvalidSpec, JobFailed
from rayflight.findings import Decision, Diagnosis, Finding, Layer
from tests.fake_context import a_context

FILE = Path(__file__).parents[2] / "dags" / "failure_drills.py"
TABLE: dict[str, dict[str, Any]] = {
    "oom": {"cause": ["container-out-of-memory"]},
    "refused": {"cause": ["InvalidSpec"]},
    "survives": {},
}


def verdict(id_: str, error: str = "JobFailed") -> dict[str, Any]:
    return {"error": error, "id": id_, "text": "said"}


def test_the_judge_stands_between_the_training_and_the_runs_state_and_the_teardowns_run_always():
    dag = runpy.run_path(str(FILE))["dag"]
    assert dag.get_task("judge").upstream_task_ids == {"train"}
    assert not dag.get_task("judge").is_teardown
    assert dag.get_task("flight.collect_logs").upstream_task_ids >= {"train"}
    assert dag.get_task("flight.tear_down").is_teardown


def test_a_verdict_left_behind_holds_cause_and_decision():
    cause = Finding(
        id="gcs-died", title="t", layer=Layer.RAY, summary="s", next_step="n", decision=Decision.RETRY_ELSEWHERE
    )
    context = a_context()
    context["exception"] = JobFailed("Lost", diagnosis=Diagnosis(verdict="cause", cause=cause))
    drills.note_verdict(context)
    said = context["ti"].pushed[drills.VERDICT]
    assert (said["error"], said["id"], said["decision"]) == ("JobFailed", "gcs-died", "retry_elsewhere")


@pytest.mark.parametrize(
    ("name", "early", "trained"),
    [
        ("oom", [], verdict("container-out-of-memory")),
        ("oom", [None, verdict("container-out-of-memory")], None),
        ("refused", [{"error": "InvalidSpec", "text": "said"}], None),
        ("survives", [], None),
    ],
)
def test_the_right_cause_is_right_wherever_it_was_named(name: str, early: list[Any], trained: Any):
    assert drills.judge(TABLE, [name], early=early, trained=[trained]) == []


@pytest.mark.parametrize(
    ("name", "trained", "wrong"),
    [
        ("oom", verdict("crash-loop"), "expected container-out-of-memory, got crash-loop"),
        ("oom", None, "expected container-out-of-memory, got no failure"),
        ("survives", verdict("crash-loop"), "expected no failure, got crash-loop"),
    ],
)
def test_another_cause_and_none_are_wrong(name: str, trained: Any, wrong: str):
    assert wrong in drills.judge(TABLE, [name], early=[], trained=[trained])[0]


def test_an_unknown_drill_is_refused_with_the_names_of_all():
    with pytest.raises(InvalidSpec, match="oom, refused, survives"):
        drills.submissions(TABLE, ["nonesuch"], FILE.parent)
