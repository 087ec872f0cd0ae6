"""A GPU falls ill under a training: it is said in the task's log and told while the training goes on, and it lands."""

from __future__ import annotations

from typing import Any

import pytest

from dev.airflow_process import wait_until
from testbed import gpu
from testbed.faults import Faults
from testbed.paths import Layout
from tests.kube.flights import Flights


@pytest.mark.full
def test_a_gpu_that_falls_ill_is_said_and_told_while_the_training_goes_on(flights: Flights, duty: tuple[Any, Any]):
    flights.client.wait_for_dag("train_watched")
    run = flights.take_off("train_watched")
    flights.wait_training(run)
    _, hook = duty
    before = len(hook.posts)
    (pod,) = flights.pods(run, "worker")
    (status,) = pod["status"]["containerStatuses"]
    device = status["allocatedResourcesStatus"][0]["resources"][0]["resourceID"]
    with Faults(Layout.full()).make_gpu_unhealthy(*gpu.find(device)):
        assert wait_until(lambda: "Watch: gpu-healthy" in flights.log(run, "train"), 60, every=1)
        assert flights.task(run, "train").state == "deferred"
        assert wait_until(lambda: len(hook.posts) == before + 1, 20, every=0.5)
    assert wait_until(lambda: "Watch: good again: gpu-healthy" in flights.log(run, "train"), 60, every=1)
    assert flights.land(run) == "success"
    told = hook.posts[-1][2]
    assert (told["cause"], told["where"]["gpus"]) == ("verification-gpu-healthy", [device])
    assert told["where"]["node"] == pod["spec"]["nodeName"]
    (row,) = flights.xcom(run, "train")["watched"]
    assert row["until"] is not None
    flights.assert_nothing_left(run)
