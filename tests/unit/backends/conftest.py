from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rayflight.kube.client import KubeClient
from rayflight.kube.endpoint import resolve
from rayflight.kube.http import KubeHttp
from tests.unit.kube.conftest import Sleeps
from tests.unit.kube.fake_kube import FakeKube


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as server:
        yield server


@pytest.fixture
async def client(kube: FakeKube) -> AsyncIterator[KubeClient]:
    client = KubeClient(KubeHttp(await resolve(kube.access()), sleep=Sleeps()))
    yield client
    await client.close()
