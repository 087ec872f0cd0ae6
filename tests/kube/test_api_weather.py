"""An API server that loses answers, refuses and drops: a run adopts, waits, and never flies twice."""

from __future__ import annotations

import json
import re
import time

import pytest

from testbed.faults_proxy import Answer, Cut, Drop, FlakyProxy, Pass
from tests.kube.flights import PROGRESS, Flights


@pytest.fixture(autouse=True)
def fine_weather_afterwards(flaky: FlakyProxy):
    yield
    flaky.clear()


def test_a_retry_adopts_the_cluster_whose_creation_was_never_answered(flights: Flights, flaky: FlakyProxy):
    flaky.follow([Drop(after_request=True)], match=r"^POST .*/rayclusters(?!.*dryRun)")
    run = flights.take_off("train_flaky", script_args="--epochs 1 --accuracy 0")
    flights.client.wait_for_task(run, "flight.provision", ["up_for_retry", "success"], 60)
    created = [item["metadata"]["uid"] for item in flights.rayclusters(run)]
    flaky.clear()
    assert flights.land(run) == "success"
    assert len(created) == 1
    assert flights.xcom(run, "provision")["uid"] == created[0]
    flights.assert_nothing_left(run)


@pytest.mark.full
def test_refusals_and_cut_connections_in_mid_training_lose_nothing(flights: Flights, flaky: FlakyProxy):
    run = flights.take_off("train_flaky", script_args="--epochs 40 --seconds-per-epoch 1 --accuracy 0")
    flights.wait_training(run)
    flaky.follow([Answer(429, retry_after=1), Pass(), Answer(503), Drop(), Cut(300), Pass(), Answer(500)])
    flaky.cut_open_connections()
    time.sleep(25)  # as long as the bad weather lasts
    flaky.clear()
    assert flights.land(run) == "success"
    assert flights.task(run, "train").try_number == 1
    assert flights.xcom(run, "train")["metrics"]["epoch"] == 40
    reports = [json.loads(line)["epoch"] for line in re.findall(rf"{PROGRESS} (.*)", flights.archived_driver_log(run))]
    assert reports == list(range(1, 41))
    flights.assert_nothing_left(run)
