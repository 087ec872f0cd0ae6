"""The last lines of containers that are in trouble: what a diagnosis reads. Read once per restart, not per look."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rayflight.errors import ApiError
from rayflight.kube.client import JsonObject, KubeClient

# `ray start --block` says which of its processes died and then prints the last 200 lines of that process' own log.
_LINES = 300
_BYTES = 64 * 1024
_AT_ONCE = 8  # containers read per look; a cluster of hundreds that crash says the same everywhere


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

    async def read(self, pods: Sequence[JsonObject]) -> dict[str, str]:
        """By ``POD/CONTAINER`` or ``POD/CONTAINER/previous``; what has no log is left out."""
        wanted = [item for pod in pods for item in _wanted(pod)]
        fresh = [item for item in wanted if item not in self._read][:_AT_ONCE]
        tails = await asyncio.gather(*(self._tail(item) for item in fresh))
        self._read |= dict(zip(fresh, tails, strict=True))
        self._read = {item: tail for item, tail in self._read.items() if item in wanted}
        return {item.name: tail for item, tail in self._read.items() if tail}

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
