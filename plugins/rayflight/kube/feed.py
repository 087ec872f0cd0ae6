"""One list+watch of one kind in one namespace: the last known objects, and who is woken when they change.

State is never lost or counted twice, whatever the connection does: a dropped watch goes on from the last version seen,
an expired one (410) lists anew and compares. What cannot be read is a recorded ``Trouble``; the feed keeps trying.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from rayflight.errors import ApiError, ApiUnreachable
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.http import Patience, backoff
from rayflight.kube.refusals import WatchExpired
from rayflight.kube.resources import Resource

log = logging.getLogger(__name__)

WATCH_SECONDS = (45, 60)  # short, because a frozen API server is only noticed at the end of a watch
LIST_PATIENCE = Patience(read=15.0)  # asked again by the feed itself, after its readers were told
REFUSED_SECONDS = 30.0  # a missing permission or CRD may be mended by a person: ask again now and then
_SOON = 0.01  # after an expired watch the list is asked for at once, but never in a tight loop
_GRACE = 5.0
_SHORT_WATCH = 1.0  # a watch that ends sooner and empty was cut by something in between

Index = Callable[[JsonObject], Hashable]
Concerns = Callable[[Any], bool]
Trim = Callable[[JsonObject], JsonObject | None]


@dataclass(frozen=True, slots=True)
class Topic:
    """What one feed follows. ``index`` groups objects for readers; ``trim`` drops what nobody reads (None: the object).

    Both are plain functions of the module, so that equal topics are equal.
    """

    resource: Resource
    namespace: str | None
    selector: str
    index: Index
    trim: Trim

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.resource}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a feed cannot read now. ``since`` is monotonic; objects read before stay, and may be out of date."""

    error: ApiError
    since: float

    @property
    def seconds(self) -> float:
        """How long it lasts already."""
        return time.monotonic() - self.since

    @property
    def passing(self) -> bool:
        """A dropped connection so short ago that it is not worth a word: the objects are hardly older than always."""
        return isinstance(self.error, ApiUnreachable) and self.seconds < _GRACE


class Listener:
    """Is woken by a feed for the index keys that concern it (None: all)."""

    def __init__(self, wake: Callable[[], None], concerns: Concerns | None = None) -> None:
        self.wake = wake
        self.concerns: Concerns = concerns or (lambda _key: True)


class Feed:
    """Follows one topic for as long as ``run`` runs."""

    def __init__(
        self, client: KubeClient, topic: Topic, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.topic = topic
        self.listeners: set[Listener] = set()
        self._client, self._sleep = client, sleep
        self._objects: dict[tuple[str, str], JsonObject] = {}
        self._groups: dict[Hashable, dict[tuple[str, str], JsonObject]] = {}
        self._version: str | None = None
        self._settled = asyncio.Event()
        self._trouble: Trouble | None = None
        self.synced = False
        self.relists = 0  # how often a watch expired and the list had to be compared instead
        self._expired = False

    @property
    def trouble(self) -> Trouble | None:
        """Why this topic cannot be read now, or None."""
        hidden = self._trouble is None or (self.synced and self._trouble.passing)
        return None if hidden else self._trouble

    def read(self, concerns: Concerns) -> list[JsonObject]:
        """The objects whose index key concerns the reader, as last seen."""
        return [item for key, group in self._groups.items() if concerns(key) for item in group.values()]

    async def settled(self) -> None:
        """Returns when the first list is there, or when it is known why not."""
        await self._settled.wait()

    async def run(self) -> None:
        """List, watch, and again; ends only by cancellation."""
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                pause = await self._round(attempt)
            except ApiError as error:
                attempt = 0 if time.monotonic() - began > _GRACE else attempt  # it was well until now
                self._stumble(error)
                pause = self._patience(error, attempt)
            except Exception as error:  # a feed that ends silently leaves its readers waiting for ever
                log.exception("following %s failed", self.topic)
                self._version = None
                self._stumble(ApiError("Cannot follow", which=str(self.topic), why=repr(error)))
                pause = REFUSED_SECONDS
            attempt = attempt + 1 if pause else 0
            if pause:
                await self._sleep(pause)

    async def _round(self, attempt: int) -> float:
        """One list (if needed) and one watch to its end; returns how long to pause, 0 after a healthy one."""
        began = time.monotonic()
        if self._version is None:
            await self._list()
        try:
            delivered = await self._follow(str(self._version))
        except WatchExpired:
            log.info("the watch of %s expired: listing anew", self.topic)
            self._version, self._expired = None, True
            return backoff(attempt) if attempt else _SOON
        return 0.0 if delivered or time.monotonic() - began > _SHORT_WATCH else backoff(attempt)

    def _patience(self, error: ApiError, attempt: int) -> float:
        if isinstance(error, ApiUnreachable):
            return max(backoff(attempt), error.retry_after or 0.0)
        self._version = None
        return REFUSED_SECONDS * (0.5 + random.random())  # noqa: S311 - jitter

    async def _list(self) -> None:
        listing = await self._client.list(
            self.topic.resource, self.topic.namespace, selector=self.topic.selector, patience=LIST_PATIENCE
        )
        fresh = {_name(item): item for item in listing.items}
        for gone in self._objects.keys() - fresh.keys():
            self._drop(gone)
        for item in listing.items:
            self._put(item)
        self._version, self.synced = listing.version, True
        self.relists, self._expired = self.relists + self._expired, False
        self._recover()

    async def _follow(self, version: str) -> bool:
        """Apply one watch until the server ends it; True when it delivered anything."""
        delivered = False
        events = self._client.watch(
            self.topic.resource,
            self.topic.namespace,
            selector=self.topic.selector,
            version=version,
            seconds=random.randint(*WATCH_SECONDS),  # noqa: S311 - jitter
        )
        async with aclosing(events):
            async for kind, item in events:
                if kind == "OPEN":
                    self._recover()
                    continue
                delivered = True
                self._version = item["metadata"]["resourceVersion"]
                if kind == "DELETED":
                    self._drop(_name(item))
                elif kind in ("ADDED", "MODIFIED"):
                    self._put(item)
        return delivered

    def _put(self, item: JsonObject) -> None:
        name = _name(item)
        old = self._objects.get(name)
        if old is not None and _version(old) == _version(item):
            return
        kept = self.topic.trim(item)
        if kept is None:
            self._drop(name)
            return
        key = self.topic.index(kept)
        if old is not None and self.topic.index(old) != key:
            self._drop(name)
        self._objects[name] = kept
        self._groups.setdefault(key, {})[name] = kept
        if old is None or _content(old) != _content(kept):
            self._wake(key)

    def _drop(self, name: tuple[str, str]) -> None:
        old = self._objects.pop(name, None)
        if old is None:
            return
        key = self.topic.index(old)
        group = self._groups.get(key, {})
        group.pop(name, None)
        if not group:
            self._groups.pop(key, None)
        self._wake(key)

    def _wake(self, key: Hashable) -> None:
        for listener in tuple(self.listeners):
            if listener.concerns(key):
                listener.wake()

    def _stumble(self, error: ApiError) -> None:
        if self._trouble is None:
            log.warning("cannot follow %s: %s", self.topic, error)
        since = self._trouble.since if self._trouble else time.monotonic()
        self._trouble = Trouble(error=error, since=since)
        if self._settled.is_set():
            return
        self._settled.set()
        self._wake_all()

    def _recover(self) -> None:
        past, self._trouble = self._trouble, None
        if past is not None:
            log.info("following %s again after %.1f s", self.topic, past.seconds)
            if not past.passing:
                self._wake_all()
        self._settled.set()

    def _wake_all(self) -> None:
        for listener in tuple(self.listeners):
            listener.wake()


def _name(item: JsonObject) -> tuple[str, str]:
    meta = item["metadata"]
    return meta.get("namespace", ""), meta["name"]


def _version(item: JsonObject) -> Any:
    return item["metadata"].get("uid"), item["metadata"].get("resourceVersion")


def _content(item: JsonObject) -> Mapping[str, Any]:
    """What counts as a change: all but the version itself."""
    return {**item, "metadata": {**item["metadata"], "resourceVersion": None}}
