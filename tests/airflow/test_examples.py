"""docs/examples: each is a DAG that Airflow takes and whose flights can be planned; what it promises is set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Metadata
from airflow.serialization.serialized_objects import DagSerialization

from rayflight.airflow import PlanFlight, forms
from rayflight.specs import JobSpec, load_cluster

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
DOCUMENT = (ROOT / "docs" / "scheduling.md").read_text()


def load(name: str) -> DAG:
    """As a file of the dags folder, where it is meant to be copied."""
    names: dict[str, Any] = {"__file__": str(ROOT / "dags" / f"{name}.py")}
    exec(compile((ROOT / "docs" / "examples" / f"{name}.py").read_text(), f"{name}.py", "exec"), names)
    return next(value for value in names.values() if isinstance(value, DAG))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_named_by_its_file_and_documented(path: Path):
    assert len(path.read_text().splitlines()) <= 60
    assert load(path.stem).dag_id == path.stem
    assert f"(examples/{path.name})" in DOCUMENT


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_serialises_and_its_flight_can_be_planned(path: Path):
    dag = load(path.stem)
    DagSerialization.from_dict(DagSerialization.to_dict(dag))
    plans = [task for task in dag.tasks if isinstance(task, PlanFlight) and task.cluster is not None]
    assert plans
    for plan in plans:
        load_cluster(plan.cluster)
        if isinstance(plan.job, dict):
            JobSpec.parse(forms.job(plan.job)).require_files()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_bounds_its_clusters_and_catches_nothing_up(path: Path):
    dag = load(path.stem)
    assert dag.max_active_runs <= 2
    assert dag.catchup is False


def test_every_example_is_linked_and_every_link_leads_somewhere():
    linked = set(re.findall(r"\((examples/\w+\.py)\)", DOCUMENT))
    assert linked == {f"examples/{path.name}" for path in EXAMPLES}


def test_pooled_examples_take_a_slot_per_gpu_and_land_without_one():
    for name in ("nightly_from_a_pool", "backfill_by_day"):
        dag = load(name)
        spec = load_cluster(dag.get_task("flight.plan").cluster)
        assert (dag.get_task("flight.train").pool, dag.get_task("flight.train").pool_slots) == ("gpus", spec.gpus)
        assert dag.get_task("flight.tear_down").pool == "default_pool"


def published(accuracy: float) -> list[Any]:
    call = load("new_data_new_model").get_task("publish").python_callable
    trained = {"metrics": {"accuracy": accuracy}, "submission_id": "rf-1"}
    return list(call(trained, {"least_accuracy": 0.9}))


def test_a_good_model_is_published_with_its_metrics():
    (event,) = published(0.95)
    assert isinstance(event, Metadata)
    assert (event.asset.uri, event.extra) == ("s3://bucket/models/clicks", {"accuracy": 0.95, "submission": "rf-1"})


def test_a_model_that_is_not_good_enough_is_not_published():
    with pytest.raises(ValueError, match="not published"):
        published(0.5)


def test_the_sweep_makes_a_job_per_trial_and_takes_the_best_of_those_that_flew():
    dag = load("weekly_sweep")
    jobs = dag.get_task("jobs").python_callable({"epochs": [2, 5]})
    assert [JobSpec.parse(job).entrypoint[-1] for job in jobs] == ["2", "5"]
    trained = [{"metrics": {"accuracy": 0.8}}, None, {"metrics": {"accuracy": 0.9}}]
    assert dag.get_task("best").python_callable(trained) == {"accuracy": 0.9}
