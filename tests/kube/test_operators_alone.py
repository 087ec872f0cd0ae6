"""The operators without training_run and without PlanFlight: both ways of waiting, two trainings on one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dev.airflow_client import Run
from dev.airflow_process import wait_until
from dev.cluster import RAY
from tests.kube.flights import Flights

STEPS = ("create", "ready", "verified", "first", "second", "followed", "collected", "deleted", "gone")
WAITING = {"ready", "verified", "first", "followed", "deleted", "gone"}
WAYS = ["alone", pytest.param("alone_deferred", marks=pytest.mark.full)]


@pytest.fixture(scope="module", params=WAYS)
def run(flights: Flights, request: pytest.FixtureRequest) -> Run:
    flights.client.wait_for_dag(request.param)
    run = flights.take_off(request.param, workers=1, verify=True)
    assert flights.land(run) == "success", flights.story()
    return run


@pytest.fixture(scope="module")
def results(flights: Flights, run: Run) -> dict[str, Any]:
    return {step: flights.client.xcom(run, step) for step in STEPS}


def test_every_operator_works_alone(flights: Flights, run: Run):
    tasks = {task.task_id: (task.state, task.try_number) for task in flights.client.tasks(run)}
    assert tasks == dict.fromkeys(STEPS, ("success", 1))


def test_only_the_way_of_waiting_differs(flights: Flights, run: Run):
    deferred = {step for step in STEPS if "Pausing task as DEFERRED" in flights.client.log(run, step)}
    assert deferred == (set() if run.dag_id == "alone" else WAITING)


def test_results_are_typed_and_plain(results: dict[str, Any]):
    created = results["create"]
    assert results["ready"]["uid"] == created["uid"]
    assert results["verified"]["verdict"] == "passed"
    assert results["verified"]["checks"] != []
    assert results["collected"]["missing"] == []
    assert results["collected"]["diagnosis"]["verdict"] == "healthy"
    assert results["deleted"]["clusters"] == [f"{created['namespace']}/{created['cluster']}"]
    assert results["deleted"]["gpu_seconds"] > 5
    assert results["gone"]["kept"] == []
    assert "__classname__" not in json.dumps(results)


def test_two_trainings_ran_on_the_same_cluster(results: dict[str, Any]):
    first, second, followed = results["first"], results["second"], results["followed"]
    assert second["cluster"]["uid"] == results["create"]["uid"]
    assert followed["submission_id"] == second["submission_id"] != first["submission_id"]
    for outcome in (first, followed):
        assert outcome["status"] == "SUCCEEDED"
        assert outcome["metrics"]["sum"] == sum(range(1000))


def test_the_driver_log_is_in_the_task_log_of_who_followed(flights: Flights, run: Run):
    for task, others in (("first", "followed"), ("followed", "first")):
        log = flights.client.log(run, task)
        assert log.count(f"is {sum(range(1000))}, expected") == 1, others


def test_templates_were_rendered(flights: Flights, run: Run, results: dict[str, Any]):
    assert results["create"]["namespace"] == flights.namespace
    assert results["create"]["spec"]["image"] == flights.place.image
    assert results["create"]["spec"]["groups"][0].get("replicas", 1) == 1  # the shape says 2
    rendered = flights.client.task_data(run, "first")["rendered_fields"]
    assert rendered["conn_id"] == "kubernetes_default"
    assert rendered["job"]["entrypoint"] == "python3 smoke.py"


def test_every_task_has_its_links(flights: Flights, run: Run, results: dict[str, Any]):
    for step in STEPS:
        links = flights.client.links(run, step)
        assert links.pop("Archive") == results["create"]["archive"], step
        if step not in ("collected", "deleted", "gone"):
            assert results["create"]["cluster"] in links.pop("Ray dashboard"), step
        assert links == {}


def test_nothing_is_left(flights: Flights, run: Run):
    flights.assert_nothing_left(run)


@pytest.mark.full
def test_training_run_can_be_used_twice_in_one_dag(flights: Flights):
    flights.client.wait_for_dag("twice")
    run = flights.take_off("twice", workers=1, verify=False)
    assert flights.land(run) == "success", flights.story()
    landed = [flights.client.xcom(run, f"{group}.tear_down") for group in ("one", "two")]
    assert [len(landing["clusters"]) for landing in landed] == [1, 1]
    assert landed[0]["clusters"] != landed[1]["clusters"]
    assert {flights.client.xcom(run, f"{group}.train")["status"] for group in ("one", "two")} == {"SUCCEEDED"}
    flights.assert_nothing_left(run)


@pytest.fixture
def trained_here(flights: Flights) -> Iterator[Run]:
    """A training that is followed by a task process, on a cluster that no task tears down."""
    flights.client.wait_for_dag("trained_without_a_trigger")
    run = flights.take_off("trained_without_a_trigger", workers=0)
    flights.client.wait_for_task(run, "train", ["running"], 180)
    yield run
    for item in flights.rayclusters(run):
        flights.cluster.delete(f"{RAY}/namespaces/{flights.namespace}/rayclusters/{item['metadata']['name']}")


@pytest.mark.full
def test_a_person_who_ends_the_task_ends_the_training_also_without_a_trigger(flights: Flights, trained_here: Run):
    name = flights.rayclusters(trained_here)[0]["metadata"]["name"]

    def statuses() -> list[str]:
        return [job["status"] for job in flights.cluster.ray_jobs(flights.namespace, name)]

    assert wait_until(lambda: statuses() == ["RUNNING"], 30, every=0.5)
    flights.client.mark_task(trained_here, "train", "failed")
    assert wait_until(lambda: statuses() == ["STOPPED"], 30, every=0.5), statuses()
