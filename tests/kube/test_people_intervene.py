"""A person marks, or clears, in mid-training: the world follows."""

from __future__ import annotations

from tests.kube.flights import Flights

SLOW = "--epochs 40 --seconds-per-epoch 2"


def test_a_run_marked_failed_stops_training_and_leaves_nothing(flights: Flights):
    run = flights.take_off(script_args=SLOW)
    flights.wait_training(run)
    assert len(flights.cluster.owned_by(run, flights.instance)) >= 3  # what the last line counts does see something
    flights.client.mark_run(run, "failed")
    assert flights.land(run) == "failed"
    assert flights.task(run, "train").state == "failed"
    assert flights.task(run, "tear_down").state == "success"
    flights.assert_nothing_left(run)


def test_a_training_cleared_in_mid_air_flies_again_on_a_cluster_of_its_own(flights: Flights):
    run = flights.take_off(script_args="--epochs 14 --seconds-per-epoch 2")
    flights.wait_training(run)
    first = flights.rayclusters(run)[0]["metadata"]
    cleared = flights.client.clear(run, ["flight.train"])
    assert {"flight.plan", "flight.provision", "flight.wait_ready"} <= set(cleared)
    flights.wait_training(run, try_number=2)
    names = [item["metadata"]["name"] for item in flights.rayclusters(run)]
    assert [name for name in names if name != first["name"]] != []
    assert flights.land(run) == "success"
    assert flights.xcom(run, "plan")["attempt"] == 2
    assert flights.xcom(run, "train")["status"] == "SUCCEEDED"
    flights.assert_nothing_left(run)
