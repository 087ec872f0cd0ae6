"""A training that ends without success fails the run, says its exit code, is not repeated, and leaves nothing."""

from __future__ import annotations

import pytest

from dev.airflow_client import Run
from tests.kube.flights import Flights


@pytest.fixture(scope="module")
def run(flights: Flights) -> Run:
    run = flights.take_off(script_args="--fail-at-epoch 2 --exit-code 7")
    assert flights.land(run) == "failed"
    return run


def test_the_task_says_how_the_training_ended(flights: Flights, run: Run):
    assert flights.task(run, "train").state == "failed"
    message = flights.failure(run, "train")
    assert "7" in message
    assert "asked to fail at epoch 2" in message


def test_it_was_submitted_once(flights: Flights, run: Run):
    assert flights.task(run, "train").try_number == 1
    assert flights.log(run, "train").count("asked to fail at epoch 2") >= 1


def test_nothing_is_left(flights: Flights, run: Run):
    assert flights.task(run, "tear_down").state == "success"
    flights.assert_nothing_left(run)
