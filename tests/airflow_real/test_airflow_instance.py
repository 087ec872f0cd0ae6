"""The Airflow that the cluster tests run on: up quickly, obedient to every verb, gone without a trace."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.airflow_home import Settings
from dev.airflow_instance import Airflow
from dev.airflow_process import Running, running_processes, wait_until

DAGS = Path(__file__).parent / "dags"
TOY = "toy_flight"


@pytest.fixture(scope="module")
def airflow() -> Iterator[Airflow]:
    with Airflow(Settings(dag_folders=[DAGS])) as instance:
        instance.client.wait_for_dag(TOY)
        yield instance


def test_it_is_healthy_in_time(airflow: Airflow):
    assert airflow.seconds_to_start < 35


def test_a_run_is_watched_to_its_end(airflow: Airflow):
    run = airflow.client.trigger(TOY, {"seconds": 1})
    changes = [(change.task.task_id if change.task else "run", change.state) for change in airflow.client.watch(run)]
    assert changes[-1] == ("run", "success")
    assert {("plan", "success"), ("wait", "success"), ("work", "success"), ("tear_down", "success")} <= set(changes)
    assert airflow.client.xcom(run, "plan") == {"attempt": 1, "checks": [{"id": "a", "verdict": "passed"}]}
    assert airflow.client.xcom(run, "plan", key="nothing") is None
    assert "RAYFLIGHT_TOY plan" in airflow.client.log(run, "plan")


def test_tasks_are_cleared_and_runs_marked_by_hand(airflow: Airflow):
    client = airflow.client
    run = client.trigger(TOY, {"seconds": 300})
    client.wait_for_task(run, "wait", ["deferred"], 30)
    assert "wait" in client.clear(run, ["wait"])
    assert client.wait_for_task(run, "wait", ["deferred"], 30).try_number == 2
    client.mark_task(run, "wait", "success")
    assert client.wait_for_run(run, 30) == "success"
    client.delete_run(run)
    with pytest.raises(RuntimeError, match="404"):
        client.run_state(run)


@pytest.mark.full
def test_a_second_triggerer_takes_over_from_a_frozen_one(airflow: Airflow):
    client = airflow.client
    run = client.trigger(TOY, {"seconds": 300})
    client.wait_for_task(run, "wait", ["deferred"], 30)
    assert wait_until(lambda: client.task(run, "wait").triggerer_job is not None, 20)
    first_job = client.task(run, "wait").triggerer_job
    second = airflow.start_triggerer()
    first = airflow.components["triggerer"]
    try:
        first.freeze()
        assert wait_until(lambda: client.task(run, "wait").triggerer_job not in (None, first_job), 60)
    finally:
        first.thaw()
        client.mark_run(run, "success")
        airflow.drop(second)


def test_a_killed_component_comes_back(airflow: Airflow):
    before = airflow.components["triggerer"].pid
    after = airflow.restart("triggerer", kill=True)
    assert after.pid != before
    assert after.alive


@pytest.mark.parametrize("frozen", [False, True], ids=["all running", "scheduler frozen, task running"])
def test_nothing_is_left_after_a_failure(frozen: bool):
    members: list[Running] = []
    with pytest.raises(ZeroDivisionError), Airflow(Settings(dag_folders=[DAGS])) as instance:  # noqa: PT012  (the body)
        if frozen:
            instance.client.wait_for_dag(TOY)
            instance.client.trigger(TOY, {"seconds": 300})
            instance.components["scheduler"].freeze()
        members = [member for component in instance.components.values() for member in component.members()]
        begin = time.monotonic()
        raise ZeroDivisionError
    assert time.monotonic() - begin < 10
    assert len(members) >= 8
    assert not set(_identity(members)) & set(_identity(running_processes()))
    assert not instance.home.directory.exists()


@pytest.mark.full
def test_nothing_is_left_when_the_test_session_is_killed(tmp_path: Path):
    pids = tmp_path / "pids"
    child = os.fork()
    if child == 0:
        with Airflow(Settings(dag_folders=[DAGS]), directory=tmp_path / "home") as instance:
            found = [member for component in instance.components.values() for member in component.members()]
            pids.write_text("\n".join(f"{member.pid} {member.started}" for member in found))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    started = {tuple(map(int, line.split())) for line in pids.read_text().splitlines()}
    assert started
    assert wait_until(lambda: not started & set(_identity(running_processes())), 20)


def _identity(processes: list[Running]) -> list[tuple[int, int]]:
    return [(process.pid, process.started) for process in processes]
