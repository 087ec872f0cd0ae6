"""Whatever the connection does, no state is lost and none counted twice."""

from __future__ import annotations

from rayflight.errors import ApiUnreachable, PermissionMissing
from rayflight.kube.feed import Topic
from rayflight.kube.resources import NODES
from tests.unit.kube.conftest import Sleeps
from tests.unit.kube.fake_kube import PODS as PODS_PATH
from tests.unit.kube.fake_kube import FakeKube
from tests.unit.kube.waiting import POD_TOPIC, Waiter, a_pod, by_cluster, hub_of, names, only, untrimmed

NODES_PATH = "/api/v1/nodes"
NODE_TOPIC = Topic(NODES, None, "", by_cluster, untrimmed)
FORBIDDEN = 'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope'


async def test_a_dropped_watch_goes_on_from_the_last_version_seen(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        pods = await hub.subscribe(POD_TOPIC, waiter.wake).settled()
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        kube.put(PODS_PATH, a_pod("a"))
        await waiter.until(lambda: names(pods.objects()) == ["a"])
        kube.drop_watches()
        kube.put(PODS_PATH, a_pod("b"))
        kube.remove(PODS_PATH, "a")
        await waiter.until(lambda: names(pods.objects()) == ["b"])
        assert kube.count(PODS_PATH, watch=False) == 1
        resumed = [seen.query["resourceVersion"] for seen in kube.requests if seen.is_watch]
        assert resumed == ["100", "101"]
        await hub.close()


async def test_a_bookmark_moves_the_version_from_which_a_watch_goes_on(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        pods = await hub.subscribe(POD_TOPIC, waiter.wake).settled()
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        kube.bookmark(PODS_PATH)
        kube.put(PODS_PATH, a_pod("a"))
        await waiter.until(lambda: len(pods.objects()) == 1)
        kube.bookmark(PODS_PATH)
        kube.put(PODS_PATH, a_pod("b"))
        await waiter.until(lambda: len(pods.objects()) == 2)
        assert waiter.wakes == 2
        await hub.close()


async def test_an_expired_watch_lists_anew_and_wakes_only_for_what_changed(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    for name in ("stays", "goes"):
        kube.put(PODS_PATH, a_pod(name, name))
    stays, goes = Waiter(), Waiter()
    async with await hub_of(kube, sleeps) as hub:
        await hub.subscribe(POD_TOPIC, stays.wake, only("stays")).settled()
        pods = await hub.subscribe(POD_TOPIC, goes.wake, only("goes")).settled()
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        before = stays.wakes, goes.wakes
        kube.drop_watches()
        kube.remove(PODS_PATH, "goes")
        kube.compact()
        await goes.until(lambda: pods.objects() == [])
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        assert kube.count(PODS_PATH, watch=False) == 2
        assert (stays.wakes, goes.wakes) == (before[0], before[1] + 1)
        assert pods.relists == 1
        await hub.close()


async def test_an_object_of_the_same_name_but_another_uid_replaces_the_first(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    kube.put(PODS_PATH, a_pod("a"))
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        pods = await hub.subscribe(POD_TOPIC, waiter.wake).settled()
        kube.remove(PODS_PATH, "a")
        kube.put(PODS_PATH, {**a_pod("a"), "metadata": {**a_pod("a")["metadata"], "uid": "second"}})
        await waiter.until(lambda: [item["metadata"]["uid"] for item in pods.objects()] == ["second"])
        await hub.close()


async def test_429_and_503_are_a_passing_trouble_and_the_objects_stay(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    kube.put(PODS_PATH, a_pod("a"))
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        pods = await hub.subscribe(POD_TOPIC, waiter.wake).settled()
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        kube.fail(429, "slow down", Retry_After="9")
        kube.fail(503, "no leader", times=3)
        kube.drop_watches()
        kube.put(PODS_PATH, a_pod("b"))
        await waiter.until(lambda: names(pods.objects()) == ["a", "b"])
        assert pods.trouble is None
        assert 9.0 in sleeps.asked
        assert kube.count(PODS_PATH, watch=False) == 1
        await hub.close()


async def test_a_missing_permission_is_a_trouble_of_that_feed_only(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH, NODES_PATH)
    kube.fail(403, FORBIDDEN, when=lambda seen: seen.path == NODES_PATH)
    waiter, other = Waiter(), Waiter()
    sleeps.hold()
    async with await hub_of(kube, sleeps) as hub:
        nodes = await hub.subscribe(NODE_TOPIC, waiter.wake).settled()
        pods = await hub.subscribe(POD_TOPIC, other.wake).settled()
        assert isinstance(getattr(nodes.trouble, "error", None), PermissionMissing)
        assert not nodes.synced
        assert pods.synced
        sleeps.release()
        await waiter.until(lambda: nodes.synced)
        assert nodes.trouble is None
        await hub.close()


async def test_a_server_that_is_away_settles_the_readers_with_the_reason(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    kube.drop()
    sleeps.hold()
    async with await hub_of(kube, sleeps) as hub:
        pods = await hub.subscribe(POD_TOPIC, lambda: None).settled()
        assert pods.trouble is not None
        assert isinstance(pods.trouble.error, ApiUnreachable)
        await hub.close()


async def test_a_fault_of_our_own_is_recorded_and_does_not_end_the_feed(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    broken = {"now": True}

    def trim(item):
        if broken.pop("now", False):
            raise KeyError("a bug")
        return item

    kube.put(PODS_PATH, a_pod("a"))
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        topic = Topic(POD_TOPIC.resource, "ns", "ray.io/cluster", by_cluster, trim)
        pods = hub.subscribe(topic, waiter.wake)
        await waiter.until(lambda: names(pods.objects()) == ["a"])
        assert pods.trouble is None
        await hub.close()


async def test_what_nobody_reads_is_trimmed_and_wakes_nobody(kube: FakeKube, sleeps: Sleeps):
    kube.serve(PODS_PATH)
    topic = Topic(POD_TOPIC.resource, "ns", "ray.io/cluster", by_cluster, without_heartbeat)
    waiter = Waiter()
    async with await hub_of(kube, sleeps) as hub:
        pods = await hub.subscribe(topic, waiter.wake).settled()
        await kube.until(lambda: kube.watching(PODS_PATH) == 1)
        kube.put(PODS_PATH, a_pod("a", heartbeat="1"))
        kube.put(PODS_PATH, a_pod("a", heartbeat="2"))
        kube.put(PODS_PATH, a_pod("a", heartbeat="3", phase="Running"))
        await waiter.until(lambda: [item["status"] for item in pods.objects()] == [{"phase": "Running"}])
        assert waiter.wakes == 2
        await hub.close()


def without_heartbeat(item):
    return {**item, "status": {key: value for key, value in item["status"].items() if key != "heartbeat"}}
