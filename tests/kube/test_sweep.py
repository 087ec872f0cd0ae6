"""A mapped sweep: every trial flies, and never more clusters hold pods at once than were allowed."""

from __future__ import annotations

import time

import pytest

from dev.airflow_client import RUN_ENDED
from tests.kube.flights import Flights


@pytest.mark.full
def test_a_sweep_of_three_flies_one_cluster_at_a_time(flights: Flights):
    run = flights.take_off("sweep")
    most, seen = 0, set()
    while flights.client.run_state(run) not in RUN_ENDED:
        clusters = flights.rayclusters(run)
        # The others of the queue exist, suspended: they hold no pod and no GPU.
        most = max(most, sum(1 for item in clusters if not item["spec"].get("suspend")))
        seen |= {item["metadata"]["uid"] for item in clusters}
        time.sleep(1)
    assert flights.land(run) == "success"
    assert len(seen) == 3
    assert most == 1
    flights.assert_nothing_left(run)
