"""The last lines of containers that are in trouble: what a diagnosis reads. Read once per restart, not per look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rayflight.errors import ApiError
from rayflight.kube.client import JsonObject, KubeClient

# `ray start --block` says which of its processes died and then prints the last 200 lines of that process' own log.
_LINES = 300
_BYTES = 64 * 1024
_AT_ONCE = 8  # containers read per look; a cluster of hundreds that crash says the same everywhere
_SEEKS_HEAD = "wait-gcs-ready"  # KubeRay's init container of workers: it tells of each check that failed
_SEEKERS, _SEEKERS_EVERY = 2, 3.0  # how many of them are read, and after how many seconds again, for they grow


@dataclass(frozen=True, slots=True)
class _Wanted:
    pod: str
    namespace: str
    uid: str
    container: str
    restarts: int
    previous: bool

    @property
    def name(self) -> str:
        return f"{self.pod}/{self.container}" + ("/previous" if self.previous else "")


class LogTails:
    """Remembers what it read, for a log that has ended does not change."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._read: dict[_Wanted, str] = {}
        self._seekers: dict[str, str] = {}
        self._seekers_at = -_SEEKERS_EVERY

    async def read(self, pods: Sequence[JsonObject]) -> dict[str, str]:
        """By ``POD/CONTAINER`` or ``POD/CONTAINER/previous``; what has no log is left out."""
        wanted = [item for pod in pods for item in _wanted(pod)]
        fresh = [item for item in wanted if item not in self._read][:_AT_ONCE]
        tails = await asyncio.gather(*(self._tail(item) for item in fresh))
        self._read |= dict(zip(fresh, tails, strict=True))
        self._read = {item: tail for item, tail in self._read.items() if item in wanted}
        return {item.name: tail for item, tail in self._read.items() if tail} | await self._growing(pods)

    async def _growing(self, pods: Sequence[JsonObject]) -> dict[str, str]:
        """Of workers that do not find a head which is Ready."""
        wanted = [item for pod in pods for item in _seeking(pod)][:_SEEKERS] if _head_is_ready(pods) else []
        if not wanted:
            self._seekers = {}
        elif time.monotonic() - self._seekers_at >= _SEEKERS_EVERY:
            tails = await asyncio.gather(*(self._tail(item) for item in wanted))
            self._seekers = {item.name: tail for item, tail in zip(wanted, tails, strict=True) if tail}
            self._seekers_at = time.monotonic()
        return self._seekers

    async def _tail(self, item: _Wanted) -> str:
        blocks: list[bytes] = []
        try:
            async for block in self._client.logs(
                item.pod, item.namespace, item.container, previous=item.previous, tail_lines=_LINES, limit_bytes=_BYTES
            ):
                blocks.append(block)  # noqa: PERF401 - what came before an error is kept
        except ApiError:  # no log (yet), or no right to read it: the diagnosis does without
            pass
        return b"".join(blocks).decode(errors="replace")


def _wanted(pod: JsonObject) -> Iterator[_Wanted]:
    status: dict[str, Any] = pod.get("status") or {}
    meta = pod["metadata"]
    containers: Iterable[Any] = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    for item in containers:
        restarts = int(item.get("restartCount") or 0)
        failed = ((item.get("state") or {}).get("terminated") or {}).get("exitCode")
        if restarts or failed:
            yield _Wanted(meta["name"], meta["namespace"], meta["uid"], item["name"], restarts, not failed)


def _seeking(pod: JsonObject) -> Iterator[_Wanted]:
    meta = pod["metadata"]
    for item in (pod.get("status") or {}).get("initContainerStatuses") or ():
        if item["name"] == _SEEKS_HEAD and "running" in (item.get("state") or {}):
            restarts = int(item.get("restartCount") or 0)
            yield _Wanted(meta["name"], meta["namespace"], meta["uid"], _SEEKS_HEAD, restarts, previous=False)


def _head_is_ready(pods: Sequence[JsonObject]) -> bool:
    heads = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head"]
    conditions = [item for pod in heads for item in (pod.get("status") or {}).get("conditions") or ()]
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
