"""A typo in what stands literally in a DAG file is an import error; what a template gives is not judged there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, task

from rayflight.airflow import CreateRayCluster, PlanFlight, SubmitRayJob, training_run
from rayflight.errors import InvalidSpec
from rayflight.specs import ClusterSpec, JobSpec

SHAPE: dict[str, Any] = {"image": "train:1", "groups": [{"name": "gpu", "gpus": 1}]}
JOB: dict[str, Any] = {"entrypoint": "python train.py"}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a job's field": ({"job": {**JOB, "timout": "2h"}}, "job of task .*: timout: unknown field, did you mean"),
    "a job's value": ({"job": {**JOB, "timeout": "2 hours"}}, "timeout: '2 hours' is no span of time"),
    "a job with a template elsewhere": (
        {"job": {"entrypoint": "python t.py {{ params.x }}", "timout": "2h"}},
        "timout: unknown field",
    ),
    "a shape's field": ({"cluster": {**SHAPE, "imagee": "x"}}, "imagee: unknown field, did you mean 'image'"),
    "a group's field": ({"cluster": {"image": "{{ p }}", "groups": [{"name": "a", "gpuss": 1}]}}, "gpuss: unknown"),
    "a teardown's word": ({"teardown": "never"}, "teardown of task .*plan: mode: Input should be 'always'"),
    "a teardown's field": ({"teardown": {"mode": "always", "keep": "1h"}}, "keep: unknown field"),
    "a resize's name": ({"resize": {"gpu": "{{ params.g }}"}}, "resize.gpu: there is no such field"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_a_typo_is_refused_when_the_file_is_read(given: dict[str, Any], sentence: str) -> None:
    with DAG("typo"), pytest.raises(InvalidSpec, match=sentence):
        training_run(**{"cluster": SHAPE, "job": JOB, **given})


def test_the_operators_alone_refuse_it_too() -> None:
    for make in (PlanFlight, CreateRayCluster):
        with pytest.raises(InvalidSpec, match="imagee: unknown field"):
            make(task_id="t", cluster={**SHAPE, "imagee": "x"})
    with pytest.raises(InvalidSpec, match="job of task t: timout: unknown field"):
        SubmitRayJob(task_id="t", job={**JOB, "timout": "2h"})


@pytest.mark.parametrize("field", sorted({*JobSpec.model_fields} - {"entrypoint"}))
def test_any_field_of_a_job_may_be_a_template(field: str) -> None:
    PlanFlight(task_id="plan", cluster=SHAPE, job={**JOB, field: "{{ params.it }}"})


@pytest.mark.parametrize("field", sorted(ClusterSpec.model_fields))
def test_any_field_of_a_shape_may_be_a_template(field: str) -> None:
    PlanFlight(task_id="plan", cluster={**SHAPE, field: "{{ params.it }}"}, job=JOB)


def test_what_another_task_returns_is_not_judged() -> None:
    @task
    def made() -> dict[str, Any]:
        return {}

    with DAG("xcom"):
        given: Any = made()
        training_run("a", cluster=given, job=given)
        training_run(
            "b", cluster=SHAPE, job={**JOB, "env": given, "timeout": timedelta(hours=1)}, teardown="{{ params.t }}"
        )


def test_no_file_is_read_for_it() -> None:
    """A shape by name and a working_dir are looked at when the task runs, where they will be used."""
    PlanFlight(task_id="plan", cluster="no-such-shape", job={**JOB, "working_dir": "/no/such/folder"})
