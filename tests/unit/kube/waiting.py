"""A hub over the fake API server, and one who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.endpoint import resolve
from rayflight.kube.feed import Topic
from rayflight.kube.http import KubeHttp
from rayflight.kube.hub import Hub
from rayflight.kube.resources import PODS
from tests.unit.kube.conftest import Sleeps
from tests.unit.kube.fake_kube import FakeKube


def by_cluster(item: JsonObject) -> str:
    return str(item["metadata"].get("labels", {}).get("ray.io/cluster", ""))


def untrimmed(item: JsonObject) -> JsonObject:
    return item


POD_TOPIC = Topic(PODS, "ns", "ray.io/cluster", by_cluster, untrimmed)


class Waiter:
    """Counts its wake-ups; ``until`` returns when the condition holds after one of them."""

    def __init__(self) -> None:
        self.wakes = 0
        self._event = asyncio.Event()

    def wake(self) -> None:
        self.wakes += 1
        self._event.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._event.clear()
                await self._event.wait()


async def hub_of(kube: FakeKube, sleeps: Sleeps) -> Hub:
    return Hub(KubeClient(KubeHttp(await resolve(kube.access()), sleep=sleeps)), linger=3.0, sleep=sleeps)


def a_pod(name: str, cluster: str = "c", **status: str) -> JsonObject:
    labels = {"ray.io/cluster": cluster}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels}, "status": status}


def names(items: list[JsonObject]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)


def only(key: str) -> Callable[[str], bool]:
    return lambda other: other == key
