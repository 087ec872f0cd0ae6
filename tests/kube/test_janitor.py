"""What a run leaves behind goes with one sweep; what a living run or a person needs stays. One story, told in order.

All clusters stand side by side without a running pod (suspended, or no image), so they cost the machine nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dev.airflow_client import Run
from dev.airflow_process import wait_until
from tests.kube.flights import Flights

NO_IMAGE = "localhost:1/no-such-image:1"
YOUNG = timedelta(seconds=125)  # the janitor leaves a cluster alone for its first two minutes

pytestmark = pytest.mark.full


@dataclass
class Fleet:
    """One run of each kind."""

    forgotten: Run  # its run was deleted from Airflow
    timed_out: Run  # dagrun_timeout skips teardowns
    kept: Run  # failed with keep_on_failure
    kept_a_day: Run  # failed with on_success
    alive: Run

    @property
    def all(self) -> list[Run]:
        return [self.forgotten, self.timed_out, self.kept, self.kept_a_day, self.alive]


@pytest.fixture(scope="module")
def fleet(flights: Flights) -> Fleet:
    flights.client.wait_for_dag("kept_on_failure", 90)
    flown = Fleet(
        forgotten=flights.take_off("never_torn_down"),
        timed_out=flights.take_off("timed_out"),
        kept=flights.take_off("kept_on_failure", workers=0, image=NO_IMAGE),
        kept_a_day=flights.take_off("deleted_on_success", workers=0, image=NO_IMAGE),
        alive=flights.take_off("waiting"),
    )
    ends = {"forgotten": "success", "timed_out": "failed", "kept": "failed", "kept_a_day": "failed"}
    assert {name: flights.land(getattr(flown, name), 150) for name in ends} == ends
    flights.client.delete_run(flown.forgotten)
    flights.runs.remove(flown.forgotten)
    return flown


@pytest.fixture(scope="module")
def names(flights: Flights, fleet: Fleet) -> dict[str, str]:
    """Run id -> name of its cluster, once none is too young to be swept."""
    clusters = {run.run_id: [item["metadata"] for item in flights.rayclusters(run)] for run in fleet.all}
    assert {run_id: len(found) for run_id, found in clusters.items()} == dict.fromkeys(clusters, 1)
    newest = max(datetime.fromisoformat(found[0]["creationTimestamp"]) for found in clusters.values())
    time.sleep(max(0.0, (newest + YOUNG - datetime.now(UTC)).total_seconds()))
    return {run_id: found[0]["name"] for run_id, found in clusters.items()}


def command(flights: Flights, *arguments: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """`airflow rayflight janitor`, where this Airflow lives."""
    merged: dict[str, Any] = {**flights.airflow.home.environment, **changes}
    environment = {key: value for key, value in merged.items() if value is not None}
    line = [sys.executable, "-m", "airflow", "rayflight", "janitor", "--namespace", flights.namespace, *arguments]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)


def left(flights: Flights, fleet: Fleet) -> set[str]:
    return {item["metadata"]["name"] for run in fleet.all for item in flights.rayclusters(run)}


def test_a_kept_cluster_says_until_when_and_how_to_reach_it(flights: Flights, fleet: Fleet, names: dict[str, str]):
    for run, hours in ((fleet.kept, 2), (fleet.kept_a_day, 24)):
        landed = flights.xcom(run, "tear_down")
        assert landed["kept"] == [f"{flights.namespace}/{names[run.run_id]}"]
        assert f"port-forward svc/{names[run.run_id]}-head-svc 8265" in landed["how_to_reach"]
        until = datetime.fromisoformat(
            flights.rayclusters(run)[0]["metadata"]["annotations"]["rayflight.io/keep-until"]
        )
        assert timedelta(hours=hours - 1) < until - datetime.now(UTC) < timedelta(hours=hours)


def test_a_dry_run_names_what_would_go_and_deletes_nothing(flights: Flights, fleet: Fleet, names: dict[str, str]):
    done = command(flights, "--dry-run")
    assert done.returncode == 0, done.stderr
    said = {
        name: action
        for action, name in re.findall(r"^(kept|would delete|deleted) \S+/(\S+) ", done.stdout, re.MULTILINE)
    }
    assert said == {
        names[fleet.forgotten.run_id]: "would delete",
        names[fleet.timed_out.run_id]: "would delete",
        names[fleet.kept.run_id]: "kept",
        names[fleet.kept_a_day.run_id]: "kept",
        names[fleet.alive.run_id]: "kept",
    }
    assert left(flights, fleet) == set(names.values())


def test_without_a_name_of_its_own_an_airflow_sweeps_nothing(flights: Flights, fleet: Fleet, names: dict[str, str]):
    done = command(flights, AIRFLOW__RAYFLIGHT__INSTANCE=None)
    assert done.returncode == 1
    assert "[rayflight] instance: it is not set" in done.stderr
    assert "Traceback" not in done.stderr
    assert left(flights, fleet) == set(names.values())


def test_one_sweep_of_the_dag_removes_what_no_run_owns(flights: Flights, fleet: Fleet, names: dict[str, str]):
    """A deleted run and one that timed out leave nothing; one kept cluster is released by the trigger form."""
    released = names[fleet.kept.run_id]
    swept = flights.client.trigger("rayflight_janitor", {"namespaces": [flights.namespace], "release": [released]})
    assert flights.client.wait_for_run(swept, 90) == "success"
    rows = {row["cluster"].partition("/")[2]: row["action"] for row in flights.client.xcom(swept, "sweep")}
    gone = [names[run.run_id] for run in (fleet.forgotten, fleet.timed_out, fleet.kept)]
    assert [rows[name] for name in gone] == ["deleted"] * 3
    assert left(flights, fleet) == set(names.values()) - set(gone)


def test_the_command_releases_a_kept_cluster_and_leaves_the_living(
    flights: Flights, fleet: Fleet, names: dict[str, str]
):
    done = command(flights, "--release", names[fleet.kept_a_day.run_id])
    assert done.returncode == 0, done.stderr
    assert "kept for a person, who released it" in done.stdout
    assert left(flights, fleet) == {names[fleet.alive.run_id]}
    assert flights.client.run_state(fleet.alive) == "running"


def test_nothing_of_the_swept_runs_is_left(flights: Flights, fleet: Fleet):
    """The janitor does not wait for pods to end: they follow their cluster by themselves."""
    for run in (fleet.forgotten, fleet.timed_out, fleet.kept, fleet.kept_a_day):
        assert wait_until(lambda run=run: not flights.cluster.owned_by(run, flights.instance), 60, every=1)  # type: ignore[misc]
