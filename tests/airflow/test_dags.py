"""The shipped DAGs parse, are wired as designed, and stay short enough to be read."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from rayflight.airflow import training_run

DAGS = Path(__file__).parents[2] / "dags"
FLIGHT = ["plan", "provision", "wait_ready", "verify", "train", "collect_logs", "tear_down"]


def load(name: str) -> Any:
    return runpy.run_path(str(DAGS / f"{name}.py"))["dag"]


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_a_shipped_dag_is_at_most_sixty_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_a_shipped_dag_parses_and_serialises(path: Path) -> None:
    dag = load(path.stem)
    restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert sorted(restored.task_ids) == sorted(dag.task_ids)


def test_every_stage_is_a_task_and_the_first_four_are_setups() -> None:
    dag = load("train_ddp")
    assert set(dag.task_dict) == {f"flight.{name}" for name in FLIGHT}
    setups = [task_id for task_id, task in dag.task_dict.items() if task.is_setup]
    assert setups == [f"flight.{name}" for name in FLIGHT[:4]]


def test_both_teardowns_belong_to_all_four_setups() -> None:
    dag = load("train_ddp")
    for name in ("collect_logs", "tear_down"):
        task = dag.get_task(f"flight.{name}")
        assert task.is_teardown
        assert {setup.task_id for setup in task.upstream_list if setup.is_setup} >= {
            f"flight.{stage}" for stage in FLIGHT[:4]
        }
    assert "flight.tear_down" in dag.get_task("flight.collect_logs").downstream_task_ids


def test_clearing_train_clears_what_it_needs() -> None:
    dag = load("train_ddp")
    chosen = dag.partial_subset("flight.train", include_downstream=True)
    assert set(chosen.task_dict) == {f"flight.{name}" for name in FLIGHT}


def test_the_history_of_the_pool_is_told_after_the_checks_and_turns_no_run_green() -> None:
    history = load("verify_gpu_pool").get_task("history")
    assert history.upstream_task_ids == {"check.flight.collect_logs"}
    assert history.is_teardown


def test_gpus_are_given_back_by_more_than_one_try_also_where_nothing_else_is_tried_twice() -> None:
    """A busy Airflow loses task processes without a word: one lost teardown would leave a cluster standing."""
    tasks = load("verify_gpu_pool").task_dict
    retries = {name: tasks[f"check.flight.{name}"].retries for name in ("verify", "collect_logs", "tear_down")}
    assert retries == {"verify": 0, "collect_logs": 2, "tear_down": 2}


def test_the_form_says_what_follows_a_verification_that_fails() -> None:
    on_fail = load("train_ddp").params.get_param("on_fail")
    assert [on_fail.resolve(word) for word in (None, "fail", "warn", "replace")] == [None, "fail", "warn", "replace"]
    with pytest.raises(ValueError, match="ignore"):
        on_fail.resolve("ignore")


def test_a_flight_without_training_has_no_train_task() -> None:
    assert "check.flight.train" not in load("verify_gpu_pool").task_dict


def test_whoever_holds_gpus_gets_a_slot_first_and_gives_them_back_without_one() -> None:
    """With the pool on the teardowns, two flights could wait for each other: one for slots, one for GPUs."""
    with DAG("pooled") as dag:
        training_run(cluster="testbed-2x1", job={"entrypoint": "x"}, pool="gpus", pool_slots=8)
    slots = {name: (dag.get_task(f"flight.{name}").pool, dag.get_task(f"flight.{name}").pool_slots) for name in FLIGHT}
    assert slots == dict.fromkeys(FLIGHT[:5], ("gpus", 8)) | dict.fromkeys(FLIGHT[5:], ("default_pool", 1))
    assert {str(task.weight_rule) for task in dag.tasks} == {"upstream"}


def test_the_trigger_form_bounds_what_people_can_ask_for() -> None:
    params = load("train_ddp").params
    with pytest.raises(ValueError, match="65"):
        params.get_param("workers").resolve(65)


def test_what_makes_a_short_training_fail_stands_in_its_form() -> None:
    dag = load("train_ddp")
    assert "Below it the training fails" in dag.params.get_param("accuracy").description
    assert "--accuracy {{ params.accuracy }} {{ params.script_args }}" in dag.get_task("flight.plan").job["entrypoint"]
