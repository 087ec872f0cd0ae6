from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rayflight.kube.client import KubeClient
from rayflight.kube.endpoint import resolve
from rayflight.kube.http import KubeHttp
from tests.unit.kube.fake_kube import FakeKube


class Sleeps:
    """Sleeps no time; remembers what was asked for. While ``held``, nobody wakes."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._open = asyncio.Event()
        self._open.set()

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self._open.wait()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as server:
        yield server


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


@pytest.fixture
async def client(kube: FakeKube, sleeps: Sleeps) -> AsyncIterator[KubeClient]:
    client = KubeClient(KubeHttp(await resolve(kube.access()), sleep=sleeps))
    yield client
    await client.close()
