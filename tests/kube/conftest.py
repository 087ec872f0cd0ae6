"""What every test on a real cluster stands on: one testbed, one real Airflow, a namespace, and the count of leftovers.

The testbed is borrowed for the whole session (and brought up when it is not up); another test session waits.
RAYFLIGHT_TEST_KUBERAY chooses the KubeRay version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.airflow_home import ROOT, Settings
from dev.airflow_instance import Airflow
from dev.cluster import Cluster
from dev.place import Place, borrow_testbed
from testbed import network
from testbed.faults_proxy import FlakyProxy, flaky_proxy
from testbed.paths import Layout
from testbed.pki import Authority
from tests import receivers
from tests.kube.flights import Flights

INSTANCE = "tests"
_REPORT = pytest.StashKey[dict[str, pytest.TestReport]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A lifecycle on a small machine takes longer than a unit test may; waiting for the testbed counts for nothing."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(420, func_only=True))  # fixtures have deadlines of their own


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember how a test ended, so that its fixtures can tell the story of a failed one."""
    report = yield
    item.stash.setdefault(_REPORT, {})[report.when] = report
    return report


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    with borrow_testbed(kuberay=os.environ.get("RAYFLIGHT_TEST_KUBERAY") or None) as borrowed:
        yield borrowed


@pytest.fixture(scope="session")
def cluster(place: Place) -> Cluster:
    return Cluster(place.kubeconfig)


@pytest.fixture(scope="session")
def flaky(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlakyProxy]:
    """The API server behind a proxy that misbehaves as told; Airflow's connection `kubernetes_flaky` leads there."""
    upstream = f"https://{network.API_ADDRESS}:{network.API_PORT}"
    kubeconfig = tmp_path_factory.mktemp("flaky") / "kubeconfig"
    with flaky_proxy(Authority(Layout.full().pki), upstream, kubeconfig) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def duty() -> Iterator[tuple[Any, Any]]:
    """Whoever is on duty: a mail server and a webhook; Airflow's connections `duty_mail` and `duty_hook` lead there."""
    with receivers.smtp() as mail, receivers.http() as hook:
        yield mail, hook


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archive")


@pytest.fixture(scope="session")
def team_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Airflow's connection `kubernetes_team` finds its kubeconfig, once a test has written it (team.py)."""
    return tmp_path_factory.mktemp("team") / "kubeconfig"


@pytest.fixture(scope="session")
def airflow(
    place: Place, flaky: FlakyProxy, duty: tuple[Any, Any], team_kubeconfig: Path, archive: Path
) -> Iterator[Airflow]:
    behind_the_proxy = Place(flaky.kubeconfig, place.image, is_testbed=True)
    settings = Settings(
        dag_folders=(ROOT / "dags", Path(__file__).parent / "dags"),
        parallelism=6,
        connections={
            "kubernetes_default": place.connection(),
            "kubernetes_flaky": behind_the_proxy.connection(),
            "kubernetes_team": Place(team_kubeconfig, place.image, is_testbed=True).connection("ray"),
            **_on_duty(*duty),
        },
        rayflight={"instance": INSTANCE, "archive": archive.as_uri()},
    )
    with Airflow(settings) as instance:
        for dag_id in ("train_ddp", "train_flaky", "sweep", "many_pods"):
            instance.client.wait_for_dag(dag_id)
        yield instance


def _on_duty(mail: Any, hook: Any) -> dict[str, Any]:
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "a@example.com", "to": "duty@example.com"}
    return {
        "duty_mail": {"conn_type": "smtp", "host": "127.0.0.1", "port": mail.server_address[1], "extra": extra},
        "duty_hook": {"conn_type": "http", "host": "127.0.0.1", "port": hook.server_address[1]},
    }


@pytest.fixture(scope="module")
def flights(airflow: Airflow, cluster: Cluster, place: Place, request: pytest.FixtureRequest) -> Iterator[Flights]:
    """Starts runs in a namespace of this module; afterwards all of them have ended and the namespace goes."""
    name = "t-" + re.sub(r"[^a-z0-9]+", "-", Path(str(request.path)).stem.removeprefix("test_"))[:40].strip("-")
    cluster.create_namespace(name)
    flown = Flights(airflow=airflow, cluster=cluster, place=place, namespace=name, instance=INSTANCE)
    yield flown
    flown.end_all()
    cluster.delete_namespace(name)


@pytest.fixture(autouse=True)
def story(request: pytest.FixtureRequest) -> Iterator[None]:
    """When a test failed: what its runs did, as sections of the report."""
    yield
    reports = request.node.stash.get(_REPORT, {})
    if "flights" in request.fixturenames and any(report.failed for report in reports.values()):
        print(request.getfixturevalue("flights").story())
