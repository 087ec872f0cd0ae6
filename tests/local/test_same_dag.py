"""One DAG file, two backends: nothing differs but the connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev import quickstart
from dev.airflow_home import Settings
from dev.airflow_instance import Airflow
from dev.cluster import Cluster
from dev.place import borrow_testbed

Connection = dict[str, object]


@contextmanager
def local(folder: Path) -> Iterator[Connection]:
    (folder / "clusters").mkdir()
    yield dict(quickstart.connection(folder))
    assert quickstart.left_behind(folder, "rf-train-ddp") == []
    assert list((folder / "clusters" / "default").glob("rf-*")) == []


@contextmanager
def kubernetes(folder: Path) -> Iterator[Connection]:
    with borrow_testbed() as place:
        yield dict(place.connection())
        assert Cluster(place.kubeconfig).of_ray("default") == []


# Another session may use the testbed: its turn is waited for within the test's own time.
ON_THE_TESTBED = pytest.param(kubernetes, marks=[pytest.mark.full, pytest.mark.timeout(1800)])


@pytest.mark.parametrize("place", [pytest.param(local, marks=pytest.mark.timeout(600)), ON_THE_TESTBED])
def test_the_same_dag_file_trains_on_both_backends(place, tmp_path: Path) -> None:
    with place(tmp_path) as connection:
        settings = Settings(
            connections={"kubernetes_default": connection},
            rayflight={"instance": "same-dag", "archive": (tmp_path / "archive").as_uri()},
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
    assert trained["metrics"]["accuracy"] >= 0.95
    assert trained["metrics"]["epoch"] == 4
    assert {row["verdict"] for row in verified["checks"]} <= {"passed", "not applicable"}
    assert landed["left"] == []
