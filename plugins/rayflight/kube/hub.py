"""Shared watches: one feed per (access, topic) and event loop, whoever waits. Decides nothing, blocks nothing.

The cost of waiting at the API server does not grow with the number of waits (decision 4). A hub's tasks run in an empty
context: a trigger's task log belongs to that trigger's own coroutine, which a hub only wakes. Feeds start with their
first subscriber and linger a few seconds after the last, so that a wait that follows another finds them warm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, Self
from weakref import WeakKeyDictionary

from rayflight.kube.access import KubeAccess
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.endpoint import resolve
from rayflight.kube.feed import Concerns, Feed, Listener, Topic, Trouble
from rayflight.kube.http import KubeHttp
from rayflight.kube.lately import Lately

LINGER_SECONDS = 5.0

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Hub]] = WeakKeyDictionary()


class Subscription:
    """One reader's view of a feed: read at any time, close when done."""

    def __init__(self, hub: Hub, feed: Feed, listener: Listener) -> None:
        self._hub, self._feed, self._listener = hub, feed, listener

    @property
    def synced(self) -> bool:
        """Whether a complete list was read at least once."""
        return self._feed.synced

    @property
    def relists(self) -> int:
        """How often a watch expired (410), so that what came and went unseen is not known."""
        return self._feed.relists

    @property
    def trouble(self) -> Trouble | None:
        """Why it cannot be read now, or None."""
        return self._feed.trouble

    async def settled(self) -> Self:
        """Returns when there is something to read, or a trouble that says why not."""
        await self._feed.settled()
        return self

    def objects(self, concerns: Concerns | None = None) -> list[JsonObject]:
        """What concerns this reader (or, of all that the feed knows, what is asked for), as last seen."""
        return self._feed.read(concerns or self._listener.concerns)

    def close(self) -> None:
        """Stop being woken; the feed ends some seconds after its last reader left."""
        self._hub.leave(self._feed, self._listener)


class Hub:
    """One client and its feeds. Enter it for as long as it is used; made by ``shared``."""

    def __init__(
        self,
        client: KubeClient,
        *,
        linger: float = LINGER_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = client
        self.lately = Lately(client)
        self._linger, self._sleep, self._forget = linger, sleep, forget
        self._feeds: dict[Topic, tuple[Feed, asyncio.Task[None]]] = {}
        self._users = 0
        self._idle = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._users += 1
        self._idle.clear()
        if self._keeper is None:
            self._keeper = _start(self._keep())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._users -= 1
        if self._users == 0:
            self._idle.set()

    def subscribe(self, topic: Topic, wake: Callable[[], None], concerns: Concerns | None = None) -> Subscription:
        """Join the feed of that topic, which starts now if nobody followed it."""
        if topic not in self._feeds:
            feed = Feed(self.client, topic, self._sleep)
            self._feeds[topic] = feed, _start(feed.run())
        feed, _ = self._feeds[topic]
        listener = Listener(wake, concerns)
        feed.listeners.add(listener)
        return Subscription(self, feed, listener)

    def leave(self, feed: Feed, listener: Listener) -> None:
        """A subscription closed."""
        feed.listeners.discard(listener)
        if not feed.listeners:
            task = _start(self._retire(feed))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    async def close(self) -> None:
        """End everything now."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    async def _retire(self, feed: Feed) -> None:
        await self._sleep(self._linger)
        found = self._feeds.get(feed.topic)
        if found and found[0] is feed and not feed.listeners:
            del self._feeds[feed.topic]
            await _end(found[1])

    async def _keep(self) -> None:
        """Lives as long as the hub. Its end, by idleness or with the loop, closes the connections."""
        try:
            while self._users:
                await self._idle.wait()
                await self._sleep(self._linger)
        finally:
            self._forget()
            feeds = [task for _, task in self._feeds.values()]
            self._feeds.clear()
            await _end(*feeds, *self._retiring)
            await self.client.close()


async def shared(access: KubeAccess) -> Hub:
    """The hub of that access in this event loop; enter it at once, and it stays for as long as anybody uses it."""
    loop = asyncio.get_running_loop()
    hubs = _hubs.setdefault(loop, {})
    if access.key not in hubs:
        client = KubeClient(KubeHttp(await resolve(access), renew=lambda: resolve(access)))
        if access.key in hubs:  # somebody else was quicker while the kubeconfig was read
            await client.close()
        else:
            hubs[access.key] = Hub(client, forget=lambda: _forget(loop, access.key))
    return hubs[access.key]


def _forget(loop: asyncio.AbstractEventLoop, key: str) -> None:
    _hubs.get(loop, {}).pop(key, None)


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, context=Context())


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
