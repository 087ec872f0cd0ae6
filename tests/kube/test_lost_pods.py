"""Pods that die in mid-training: a lost worker pod costs an epoch, a lost head costs the cluster, neither the run."""

from __future__ import annotations

from tests.kube.flights import Flights


def test_a_training_resumes_from_its_checkpoint_when_a_worker_pod_is_deleted(flights: Flights):
    run = flights.take_off(workers=2, claim=flights.make_claim(), script_args="--epochs 10 --seconds-per-epoch 2")
    flights.wait_training(run, epochs=2)
    flights.delete_pod(flights.pods(run, "worker")[0])
    assert flights.land(run) == "success"
    log = flights.log(run, "train")
    assert "resumed from epoch" in log
    assert flights.task(run, "train").try_number == 1
    assert flights.xcom(run, "train")["metrics"]["epoch"] == 10
    flights.assert_nothing_left(run)


def test_a_lost_head_condemns_the_cluster_and_the_retry_trains_on_the_next(flights: Flights):
    run = flights.take_off(script_args="--epochs 6 --seconds-per-epoch 2")
    flights.wait_training(run)
    first = flights.rayclusters(run)[0]["metadata"]["uid"]
    flights.delete_pod(flights.pods(run, "head")[0])
    flights.wait_training(run, try_number=2, seconds=240)
    assert first not in [item["metadata"]["uid"] for item in flights.rayclusters(run)][-1:]
    assert flights.land(run) == "success"
    assert flights.task(run, "train").try_number == 2
    flights.assert_nothing_left(run)
