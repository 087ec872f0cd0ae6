"""The testbed with the real Kueue, a real Airflow, and queues of the test's own; at the end Kueue is out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.airflow_home import ROOT, Settings
from dev.airflow_instance import Airflow
from dev.cluster import Cluster
from dev.place import Place
from dev.queues import Queues, real_kueue
from tests.kube.conftest import (  # noqa: F401 - fixtures and the hook that remembers how a test ended
    INSTANCE,
    cluster,
    flights,
    place,
    pytest_runtest_makereport,
    story,
)
from tests.kube.flights import Flights


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.full)
            item.add_marker(pytest.mark.timeout(480, func_only=True))


@pytest.fixture(scope="session")
def airflow(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:  # noqa: F811
    archive = tmp_path_factory.mktemp("archive")
    settings = Settings(
        dag_folders=(Path(__file__).parent / "dags", ROOT / "dags"),
        parallelism=6,
        connections={"kubernetes_default": place.connection()},
        rayflight={"instance": INSTANCE, "archive": archive.as_uri()},
    )
    with Airflow(settings) as instance:
        for dag_id in ("queued", "queued_gated"):
            instance.client.wait_for_dag(dag_id)
        yield instance


@pytest.fixture(scope="module")
def kueue(place: Place) -> Iterator[None]:  # noqa: F811
    with real_kueue():
        yield


@pytest.fixture(scope="module")
def queues(kueue: None, flights: Flights, cluster: Cluster) -> Iterator[Queues]:  # noqa: F811
    made = Queues(cluster, flights.namespace)
    yield made
    flights.end_all()
    made.clear()
