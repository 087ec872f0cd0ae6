"""One DAG file, two backends: nothing differs but the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev import quickstart, quickstart_connection
from dev.airflow_client import Run
from dev.airflow_home import Settings
from dev.airflow_instance import Airflow
from dev.cluster import Cluster
from dev.place import borrow_testbed

INSTANCE = "same-dag"


@dataclass(frozen=True)
class Somewhere:
    """Where to fly: a connection, and who counts what a run left there."""

    connection: Mapping[str, object]
    left: Callable[[Run, str], list[str]]


@contextmanager
def local(folder: Path) -> Iterator[Somewhere]:
    (folder / "clusters").mkdir()
    yield Somewhere(quickstart_connection.local(folder), lambda _, name: quickstart.left_behind(folder, name))


@contextmanager
def kubernetes(_: Path) -> Iterator[Somewhere]:
    with borrow_testbed() as place:
        cluster = Cluster(place.kubeconfig)
        yield Somewhere(place.connection(), lambda run, _: cluster.owned_by(run, INSTANCE))


# Another session may use the testbed: its turn is waited for within the test's own time.
ON_THE_TESTBED = pytest.param(kubernetes, marks=[pytest.mark.full, pytest.mark.timeout(1800)])


@pytest.mark.parametrize("place", [pytest.param(local, marks=pytest.mark.timeout(600)), ON_THE_TESTBED])
def test_the_same_dag_file_trains_on_both_backends(place, tmp_path: Path) -> None:
    with place(tmp_path) as somewhere:
        settings = Settings(
            connections={"kubernetes_default": somewhere.connection},
            rayflight={"instance": INSTANCE, "archive": (tmp_path / "archive").as_uri()},
        )
        with Airflow(settings) as airflow:
            airflow.client.wait_for_dag("train_ddp")
            run = airflow.client.trigger("train_ddp", {"epochs": 4})
            state = airflow.client.wait_for_run(run, seconds=420)
            failures = [airflow.client.failure(run, it) for it in airflow.client.tasks(run) if it.state == "failed"]
            assert state == "success", failures
            trained = airflow.client.xcom(run, "flight.train")
            verified = airflow.client.xcom(run, "flight.verify")
            landed = airflow.client.xcom(run, "flight.tear_down")
            assert somewhere.left(run, airflow.client.xcom(run, "flight.plan")["cluster"]) == []
    assert trained["metrics"]["accuracy"] >= 0.95
    assert trained["metrics"]["epoch"] == 4
    assert {row["verdict"] for row in verified["checks"]} <= {"passed", "not applicable"}
    assert landed["kept"] == []
