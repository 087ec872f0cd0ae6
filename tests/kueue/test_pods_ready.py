"""A cluster whose pods do not become ready is taken out and brought back by Kueue, and given up in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.place import Place
from dev.queues import Queues, real_kueue
from tests.kube.flights import Flights


@pytest.fixture(scope="module")
def kueue(place: Place) -> Iterator[None]:
    with real_kueue(pods_ready=20):
        yield


def test_every_time_out_is_said_and_the_last_one_ends_the_wait(flights: Flights, queues: Queues):
    queues.make("gpus")
    run = flights.take_off("queued_gated")
    assert flights.land(run, 240) == "failed"
    log = flights.log(run, "wait_ready")
    assert "after 1 time-out(s)" in log
    assert "it comes back at" in log
    ready = flights.task(run, "wait_ready")
    assert (ready.state, ready.try_number) == ("failed", 1)
    assert "Kueue does not try RayCluster" in flights.failure(run, "wait_ready")
    flights.assert_nothing_left(run)
