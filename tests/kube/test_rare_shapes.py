"""A cluster that wants a token answers nobody else; one that Ray's autoscaler sizes grows for its training."""

from __future__ import annotations

import time

import pytest
from kubernetes.client import ApiException

from dev.airflow_client import RUN_ENDED
from tests.kube.flights import Flights

pytestmark = pytest.mark.full


def test_a_training_flies_through_a_token_that_others_lack(flights: Flights):
    run = flights.take_off("with_token", verify=True, script_args="--epochs 6 --seconds-per-epoch 2")
    flights.wait_training(run, 240)
    (cluster,) = flights.rayclusters(run)
    with pytest.raises(ApiException) as refused:
        flights.cluster.ray_jobs(flights.namespace, cluster["metadata"]["name"])
    assert refused.value.status in (401, 403)
    assert flights.land(run) == "success"
    assert flights.xcom(run, "verify")["verdict"] == "passed"
    flights.assert_nothing_left(run)


def test_a_cluster_grows_by_the_worker_pod_that_its_training_asks_for(flights: Flights):
    run = flights.take_off("autoscaled", script_args="--epochs 3 --accuracy 0")
    most = 0
    while flights.client.run_state(run) not in RUN_ENDED:
        most = max(most, len(flights.pods(run, "worker")))
        time.sleep(1)
    assert flights.land(run) == "success"
    assert most == 2
    assert flights.xcom(run, "train")["metrics"]["epoch"] == 3
    flights.assert_nothing_left(run)
