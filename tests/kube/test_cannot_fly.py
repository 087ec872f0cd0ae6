"""What can never fly ends soon, failed, with the sign in its message, and leaves nothing. All three fly at once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dev.airflow_client import Run
from tests.kube.flights import Flights


@dataclass
class Grounded:
    no_namespace: Run
    no_image: Run
    no_room: Run


@pytest.fixture(scope="module")
def grounded(flights: Flights) -> Grounded:
    runs = Grounded(
        no_namespace=flights.take_off(namespace="there-is-no-such-namespace"),
        no_image=flights.take_off(image="localhost:1/no-such-image:1"),
        no_room=flights.take_off(gpus_per_worker=8),
    )
    for run in (runs.no_namespace, runs.no_image, runs.no_room):
        assert flights.land(run, 180) == "failed"
    return runs


def test_a_failed_provision_fails_the_run_and_names_the_namespace(flights: Flights, grounded: Grounded):
    assert flights.task(grounded.no_namespace, "provision").state == "failed"
    assert "there-is-no-such-namespace" in flights.failure(grounded.no_namespace, "provision")


def test_an_image_that_is_not_found_ends_the_wait_and_is_named(flights: Flights, grounded: Grounded):
    ready = flights.task(grounded.no_image, "wait_ready")
    assert ready.state == "failed"
    assert "localhost:1/no-such-image:1" in flights.failure(grounded.no_image, "wait_ready")
    assert ready.seconds is not None
    assert ready.seconds < 60


def test_gpus_that_no_node_has_end_the_wait_and_are_counted(flights: Flights, grounded: Grounded):
    ready = flights.task(grounded.no_room, "wait_ready")
    assert ready.state == "failed"
    message = flights.failure(grounded.no_room, "wait_ready")
    assert "nvidia.com/gpu" in message
    assert "8" in message


@pytest.mark.parametrize("which", ["no_namespace", "no_image", "no_room"])
def test_both_teardowns_run_and_nothing_is_left(flights: Flights, grounded: Grounded, which: str):
    run = getattr(grounded, which)
    assert flights.task(run, "collect_logs").state == "success"
    assert flights.task(run, "tear_down").state == "success"
    assert flights.task(run, "train").state == "upstream_failed"
    flights.assert_nothing_left(run)
