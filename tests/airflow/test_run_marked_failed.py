"""A run that is marked failed before it trains ends failed, and its teardown's proof is kept."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from rayflight.airflow import training_run
from tests.fake_context import FakeTaskInstance
from tests.world import flight

PROOF = {"clusters": ["ns/x"], "kept": [], "gpu_seconds": 3.0}
BEFORE = {"flight.plan": "success", "flight.provision": "success", "flight.wait_ready": "success"}


@pytest.fixture
def tear_down() -> Any:
    with DAG("train") as dag:
        training_run(cluster="gpu-2x1", job={"entrypoint": "python x.py"})
    operator = dag.get_task("flight.tear_down")
    operator.flight = flight().to_dict()
    return operator


def test_a_skipped_training_behind_a_failed_task_fails_the_teardown_once_all_is_gone(tear_down: Any) -> None:
    ti = FakeTaskInstance(others={**BEFORE, "flight.verify": "failed", "flight.train": "skipped"})
    with pytest.raises(AirflowFailException, match=r"teardown is complete.*flight.verify failed.*skipped flight.train"):
        tear_down.finish({"ti": ti}, PROOF)
    assert ti.pushed["return_value"] == PROOF


@pytest.mark.parametrize(
    ("verify", "train"),
    [("success", "success"), ("failed", "upstream_failed"), ("success", "failed"), ("success", "skipped")],
)
def test_every_other_run_gets_its_state_from_airflow_itself(tear_down: Any, verify: str, train: str) -> None:
    ti = FakeTaskInstance(others={**BEFORE, "flight.verify": verify, "flight.train": train})
    assert tear_down.finish({"ti": ti}, PROOF) == PROOF


def test_a_failed_task_elsewhere_in_the_dag_is_none_of_this_flights(tear_down: Any) -> None:
    ti = FakeTaskInstance(others={**BEFORE, "flight.verify": "success", "flight.train": "skipped", "report": "failed"})
    assert tear_down.finish({"ti": ti}, PROOF) == PROOF
