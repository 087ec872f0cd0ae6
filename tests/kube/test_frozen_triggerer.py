"""A triggerer that stands still for 40 seconds loses its triggers; the training does not notice."""

from __future__ import annotations

import time

import pytest

from dev.airflow_process import wait_until
from tests.kube.flights import Flights


@pytest.mark.full
def test_nothing_is_killed_when_one_of_two_triggerers_is_frozen_for_forty_seconds(flights: Flights):
    run = flights.take_off(script_args="--epochs 45 --seconds-per-epoch 2 --accuracy 0")
    flights.wait_training(run)
    holder = flights.task(run, "train").triggerer_job
    second = flights.airflow.start_triggerer()
    first = flights.airflow.components["triggerer"]
    try:
        first.freeze()
        time.sleep(40)  # as long as the scenario says
        assert wait_until(lambda: flights.task(run, "train").triggerer_job not in (None, holder), 30)
        first.thaw()
        epochs = flights.progress(run)
        flights.wait_training(run, epochs=epochs + 5)
        assert flights.land(run) == "success"
    finally:
        first.thaw()
        flights.airflow.drop(second)
    trained = flights.xcom(run, "train")
    assert trained["status"] == "SUCCEEDED"
    assert trained["metrics"]["epoch"] == 45
    assert flights.task(run, "train").try_number == 1
    flights.assert_nothing_left(run)
