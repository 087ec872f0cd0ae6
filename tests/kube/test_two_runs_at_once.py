"""Two runs of one DAG at the same time share nothing but the cluster."""

from __future__ import annotations

from tests.kube.flights import Flights


def test_two_runs_at_once_have_their_own_clusters_and_both_land(flights: Flights):
    runs = [flights.take_off(script_args="--epochs 3 --accuracy 0") for _ in range(2)]
    assert [flights.land(run) for run in runs] == ["success", "success"]
    names = {flights.xcom(run, "plan")["cluster"] for run in runs}
    assert len(names) == 2
    assert {tuple(flights.xcom(run, "tear_down")["clusters"]) for run in runs} == {
        (f"{flights.namespace}/{name}",) for name in names
    }
    flights.assert_nothing_left(*runs)
