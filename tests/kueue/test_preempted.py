"""A training that Kueue preempts is told from one that fails: it keeps its cluster's place and trains on from there."""

from __future__ import annotations

from dev.queues import Queues
from tests.kube.flights import Flights


def test_a_preempted_training_waits_for_its_turn_and_resumes(flights: Flights, queues: Queues):
    queues.make("gpus", gpus=1)
    claim = flights.make_claim("checkpoints")
    low = flights.take_off("queued", claim=claim, script_args="--epochs 12 --seconds-per-epoch 2")
    flights.wait_training(low, epochs=2)
    mine = flights.rayclusters(low)[0]["metadata"]
    high = flights.take_off("queued", priority="high", script_args="--epochs 1")
    flights.client.wait_for_task(low, "flight.train", ["up_for_retry"], 90)

    message = flights.failure(low, "train")
    winner = flights.rayclusters(high)[0]["metadata"]["name"]
    assert f"Kueue preempted RayCluster {mine['name']} for RayCluster {winner}" in message
    assert "The training was not at fault" in message

    assert flights.land(high) == "success"
    assert flights.land(low, 300) == "success"
    assert flights.task(low, "train").try_number == 2
    assert "resumed from epoch" in flights.log(low, "train", try_number=2)
    assert "taken by Kueue and used again: 1" in flights.archived_timeline(low)
    assert flights.xcom(low, "train")["metrics"]["epoch"] == 12
    assert len(flights.xcom(low, "tear_down")["clusters"]) == 1
    flights.assert_nothing_left(low, high)
