"""docker-compose.yaml on a Docker of this session (Linux, root): images made here, the testbed as the cluster.

Slow: everything here is marked full. Docker's packages are installed where they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.cluster import Cluster
from dev.compose import stand_ins
from dev.compose.composed import Composed
from dev.compose.docker import Docker, docker
from dev.place import Place, borrow_testbed
from testbed import packages


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.full)
            item.add_marker(pytest.mark.timeout(600, func_only=True))  # fixtures have deadlines of their own


@pytest.fixture(scope="session")
def daemon() -> Iterator[Docker]:
    packages.ensure(print, packages.DOCKER)
    with docker() as running:
        stand_ins.make(running, stand_ins.POSTGRES, stand_ins.AIRFLOW)
        yield running


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that .env names as RAYFLIGHT_KUBE."""
    folder = tmp_path_factory.mktemp("kube")
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def composed(daemon: Docker, kube: Path, tmp_path_factory: pytest.TempPathFactory) -> Composed:
    settings = {"RAYFLIGHT_KUBE": str(kube), "RAYFLIGHT_NAMESPACE": "t-compose", "RAYFLIGHT_INSTANCE": "compose-tests"}
    ours = Composed(daemon, tmp_path_factory.mktemp("compose"), settings)
    ours("build", "airflow-init")
    ours.up()
    return ours  # the daemon's end removes it


@pytest.fixture(scope="session")
def place(kube: Path) -> Iterator[Place]:
    """The testbed, with its kubeconfig where the containers find it: readable by their group."""
    with borrow_testbed() as borrowed:
        config = kube / "config"
        config.write_bytes(borrowed.kubeconfig.read_bytes())
        config.chmod(0o640)
        yield borrowed


@pytest.fixture(scope="session")
def cluster(place: Place) -> Iterator[Cluster]:
    seen = Cluster(place.kubeconfig)
    seen.create_namespace("t-compose")
    yield seen
    seen.delete_namespace("t-compose")
