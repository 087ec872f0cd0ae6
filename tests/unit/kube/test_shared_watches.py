"""The cost of waiting does not grow with the number of waits, and nothing of a hub outlives its use."""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial

from rayflight.kube.hub import Subscription, shared
from tests.unit.kube.conftest import Sleeps
from tests.unit.kube.fake_kube import PODS as PODS_PATH
from tests.unit.kube.fake_kube import FakeKube
from tests.unit.kube.waiting import POD_TOPIC, Waiter, a_pod, hub_of, names, only


async def test_two_hundred_waiters_cost_one_list_and_one_watch(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    waiters = [Waiter() for _ in range(200)]
    async with await hub_of(kube, sleeps) as hub:
        subscriptions = [hub.subscribe(POD_TOPIC, waiter.wake, only(f"c{i}")) for i, waiter in enumerate(waiters)]
        await asyncio.gather(*(item.settled() for item in subscriptions))
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        for i in range(200):
            kube.put(PODS_PATH, a_pod(f"p{i}", f"c{i}"))
        for i, (waiter, subscription) in enumerate(zip(waiters, subscriptions, strict=True)):
            await waiter.until(partial(_sees, subscription, i))
        assert (kube.count(PODS_PATH, watch=False), kube.count(PODS_PATH, watch=True)) == (1, 1)
        await hub.close()


async def test_only_those_concerned_are_woken(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    mine, other = Waiter(), Waiter()
    async with await hub_of(kube, sleeps) as hub:
        one = await hub.subscribe(POD_TOPIC, mine.wake, only("mine")).settled()
        await hub.subscribe(POD_TOPIC, other.wake, only("other")).settled()
        kube.put(PODS_PATH, a_pod("p", "mine"))
        await mine.until(lambda: names(one.objects(only("mine"))) == ["p"])
        assert other.wakes == 0
        await hub.close()


async def test_a_feed_ends_after_its_last_reader_left_and_lingered(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        first = await hub.subscribe(POD_TOPIC, waiter.wake).settled()
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        first.close()
        await kube.until(lambda: kube.watching(PODS_PATH) == 0)
        assert 3.0 in sleeps.asked
        again = await hub.subscribe(POD_TOPIC, waiter.wake).settled()
        assert again.synced
        await hub.close()
    assert kube.count(PODS_PATH, watch=False) == 2


async def test_a_hub_s_tasks_run_in_an_empty_context(kube: FakeKube, sleeps: Sleeps):
    """A trigger's task log is a context variable: what a hub logs must not land in the log of whoever came first."""
    kube.serve(PODS_PATH)
    variable = contextvars.ContextVar("task_log", default="nobody's")
    variable.set("trigger 1's")
    seen: list[str] = []
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        pods = await hub.subscribe(POD_TOPIC, waiter.wake).settled()
        hub.subscribe(POD_TOPIC, lambda: seen.append(variable.get()))
        kube.put(PODS_PATH, a_pod("a"))
        await waiter.until(lambda: len(pods.objects()) == 1)
        assert seen == ["nobody's"]
        await hub.close()


async def test_equal_accesses_share_one_hub_per_loop_and_it_ends_with_its_last_user(kube: FakeKube):
    kube.serve(PODS_PATH)
    one, two = await shared(kube.access(namespace="a")), await shared(kube.access(namespace="b"))
    assert one is two
    async with one, two:
        await one.subscribe(POD_TOPIC, lambda: None).settled()
    await one.close()
    await kube.until(lambda: kube.watching(PODS_PATH) == 0)
    assert await shared(kube.access()) is not one


def test_the_end_of_the_loop_ends_everything_without_noise(recwarn):
    async def wait_once() -> int:
        async with FakeKube() as kube:
            kube.serve(PODS_PATH)
            async with await shared(kube.access()) as hub:
                await hub.subscribe(POD_TOPIC, lambda: None).settled()
            return kube.count(PODS_PATH, watch=False)

    assert asyncio.run(wait_once()) == 1
    assert [str(item.message) for item in recwarn] == []


def _sees(subscription: Subscription, number: int) -> bool:
    return names(subscription.objects(only(f"c{number}"))) == [f"p{number}"]
