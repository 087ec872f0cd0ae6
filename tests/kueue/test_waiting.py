"""What a run says while Kueue holds its cluster, and what ends the wait at once. All fly at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dev.airflow_client import Run
from dev.airflow_process import wait_until
from dev.queues import Queues
from tests.kube.flights import Flights


@dataclass
class Waiting:
    first: Run
    second: Run
    third: Run
    too_large: Run
    nowhere: Run
    held: Run


def says(flights: Flights, run: Run, text: str, seconds: float = 60) -> str:
    """The log of `wait_ready` once it says that."""

    def log() -> str:
        try:
            return flights.log(run, "wait_ready")
        except RuntimeError:
            return ""

    assert wait_until(lambda: text in log(), seconds, every=1), f"{run.run_id} does not say {text!r}:\n{log()}"
    return log()


@pytest.fixture(scope="module")
def waiting(flights: Flights, queues: Queues) -> Waiting:
    queues.make("gpus", gpus=1)
    queues.make("held", hold=True)
    long = {"script_args": "--epochs 3 --seconds-per-epoch 5"}
    first = flights.take_off("queued", **long)
    flights.client.wait_for_task(first, "flight.wait_ready", ["deferred", "success"], 60)
    second = flights.take_off("queued", script_args="--epochs 1")
    flights.client.wait_for_task(second, "flight.wait_ready", ["deferred"], 60)
    return Waiting(
        first=first,
        second=second,
        third=flights.take_off("queued", script_args="--epochs 1"),
        too_large=flights.take_off("queued", gpus_per_worker=3),
        nowhere=flights.take_off("queued", queue="nosuch"),
        held=flights.take_off("queued", queue="held"),
    )


def test_a_cluster_behind_another_says_for_whom_it_waits(flights: Flights, queues: Queues, waiting: Waiting):
    log = says(flights, waiting.second, f"at position 1 of ClusterQueue {queues.of('gpus')}, the next one")
    assert "1 more needed" in log
    assert "1 of 1 nvidia.com/gpu reserved" in log
    holder = flights.rayclusters(waiting.first)[0]["metadata"]["name"]
    assert f"quota is held by RayCluster {holder}" in log


def test_the_one_after_it_says_behind_whom_it_stands(flights: Flights, waiting: Waiting):
    before = flights.rayclusters(waiting.second)[0]["metadata"]["name"]
    says(flights, waiting.third, f"behind RayCluster {before}")


def test_a_cluster_that_never_fits_the_quota_ends_the_wait_with_the_numbers(flights: Flights, waiting: Waiting):
    assert flights.land(waiting.too_large, 120) == "failed"
    ready = flights.task(waiting.too_large, "wait_ready")
    assert (ready.state, ready.try_number) == ("failed", 1)
    message = flights.failure(waiting.too_large, "wait_ready")
    assert "maximum capacity (1)" in message
    assert "ask for less" in message


def test_a_local_queue_that_does_not_exist_is_named(flights: Flights, waiting: Waiting):
    assert flights.land(waiting.nowhere, 120) == "failed"
    assert flights.task(waiting.nowhere, "wait_ready").try_number == 1
    assert "LocalQueue nosuch doesn't exist" in flights.failure(waiting.nowhere, "wait_ready")


def test_a_held_cluster_queue_is_waited_for_and_goes_on_when_it_is_let_go(
    flights: Flights, queues: Queues, waiting: Waiting
):
    says(flights, waiting.held, "Can't admit new workloads: is stopped.")
    queues.let_go("held")
    assert flights.land(waiting.held) == "success"


def test_all_that_waited_for_quota_land_in_turn_and_nothing_is_left(flights: Flights, waiting: Waiting):
    for run in (waiting.first, waiting.second, waiting.third):
        assert flights.land(run) == "success"
    flights.assert_nothing_left(*flights.runs)


def test_the_timeline_holds_the_wait(flights: Flights, waiting: Waiting):
    text = flights.archived_timeline(waiting.second)
    assert "position" in text
    assert "QuotaReserved" in text
    assert "Admitted" in text
