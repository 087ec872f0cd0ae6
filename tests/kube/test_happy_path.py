"""The flight that all others are compared with: verified, trained, archived, gone."""

from __future__ import annotations

import re

import pytest

from dev.airflow_client import Run
from tests.kube.flights import Flights

LINES = 200
SECONDS_PER_LINE = 0.05


@pytest.fixture(scope="module")
def run(flights: Flights) -> Run:
    run = flights.take_off(
        workers=2, verify=True, script_args=f"--log-lines {LINES} --seconds-per-line {SECONDS_PER_LINE}"
    )
    assert flights.land(run) == "success"
    return run


def test_every_task_succeeds(flights: Flights, run: Run):
    states = {task.task_id.partition(".")[2]: (task.state, task.try_number) for task in flights.client.tasks(run)}
    stages = ("plan", "provision", "wait_ready", "verify", "train", "collect_logs", "tear_down")
    assert states == dict.fromkeys(stages, ("success", 1))


def test_the_verification_matrix_covers_all_levels_and_nothing_failed(flights: Flights, run: Run):
    verified = flights.xcom(run, "verify")
    assert verified["verdict"] == "passed"
    assert {check["level"] for check in verified["checks"]} >= {1, 2, 3, 4}
    assert [check for check in verified["checks"] if check["verdict"] in ("failed", "unknown")] == []


def test_the_training_reached_its_accuracy(flights: Flights, run: Run):
    trained = flights.xcom(run, "train")
    assert trained["status"] == "SUCCEEDED"
    assert trained["metrics"]["accuracy"] >= 0.95
    assert flights.progress(run) == 5


def test_the_archive_holds_every_line_of_the_driver_exactly_once(flights: Flights, run: Run):
    log = flights.archived_driver_log(run)
    numbers = [int(number) for number in re.findall(rf"^log line (\d+) of {LINES} at", log, re.MULTILINE)]
    assert numbers == list(range(1, LINES + 1))


def test_a_printed_line_is_in_the_task_log_within_two_seconds(flights: Flights, run: Run):
    """The driver prints its clock with each line, and one machine has one clock."""
    printed = re.compile(rf"log line \d+ of {LINES} at (\d+\.\d+)")
    found = [(at, printed.search(text)) for at, text in flights.client.log_times(run, "flight.train")]
    delays = sorted(at.timestamp() - float(line[1]) for at, line in found if line)
    print(f"median {delays[LINES // 2]:.2f} s, worst {delays[-1]:.2f} s")
    assert len(delays) == LINES
    assert delays[0] > 0
    assert delays[int(LINES * 0.95)] <= 2  # the rest may meet a hiccup of a small machine
    assert delays[-1] <= 5


def test_the_logs_of_both_layers_are_collected(flights: Flights, run: Run):
    collected = flights.xcom(run, "collect_logs")
    assert collected["files"] > 5
    assert collected["missing"] == []


def test_nothing_is_left_and_the_gpus_are_accounted_for(flights: Flights, run: Run):
    landed = flights.xcom(run, "tear_down")
    assert landed["kept"] == []
    assert landed["gpu_seconds"] > 2 * 10  # two worker pods with a GPU each, for longer than ten seconds
    flights.assert_nothing_left(run)
