"""Real Ray clusters of the local backend, small ones, in a state folder of this session; nothing survives it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rayflight.backends import local_keeping
from rayflight.backends.local import LocalBackend
from rayflight.backends.local_access import LocalAccess
from rayflight.keeper import processes
from rayflight.specs import ClusterSpec

SHAPE = {
    "image": "none",
    "simulated": True,
    "head": {"memory": "1Gi"},
    "groups": [{"name": "gpu", "replicas": 1, "gpus": 1, "cpu": 1, "memory": "1Gi"}],
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.local)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAccess]:
    made = LocalAccess.from_extras({"folder": str(tmp_path_factory.mktemp("clusters"))}, home=Path("/nowhere"))
    if not Path(made.ray).exists():
        pytest.skip("there is no Ray beside this Python")
    yield made
    for uid in processes.running(str(made.folder)):
        processes.end(uid, grace=1.0)
    for folder in local_keeping.run_folders(made).values():
        shutil.rmtree(folder)


@pytest.fixture
async def backend(access: LocalAccess) -> AsyncIterator[LocalBackend]:
    async with LocalBackend(access) as entered:
        yield entered


@pytest.fixture
def spec() -> ClusterSpec:
    return ClusterSpec.parse(SHAPE, which="the tests' shape")
