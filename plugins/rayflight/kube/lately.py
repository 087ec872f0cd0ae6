"""Lists that nobody watches, at most some seconds old and shared by all who ask. Decides nothing.

For kinds that are read seldom (quotas, claims, services): with many waits in one namespace, one of them asks and the
others read what it got. A failure is shared as well, or a missing permission would be asked for again by each.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from rayflight.errors import ApiError
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.http import BRIEF
from rayflight.kube.resources import Resource

_Answer = list[JsonObject] | ApiError
_Key = tuple[Resource, str | None, str, str]


@dataclass(frozen=True, slots=True)
class _Known:
    at: float
    answer: _Answer


class Lately:
    """A small cache over ``KubeClient.list``."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[_Key, _Known] = {}
        self._asking: dict[_Key, asyncio.Lock] = {}

    async def list(
        self, resource: Resource, namespace: str | None, *, selector: str = "", fields: str = "", seconds: float = 5.0
    ) -> list[JsonObject]:
        """The objects as they were at most ``seconds`` ago. Raises the error of the last attempt, if it failed."""
        key = (resource, namespace, selector, fields)
        async with self._asking.setdefault(key, asyncio.Lock()):
            known = self._known.get(key)
            if known is None or time.monotonic() - known.at > seconds:
                known = _Known(time.monotonic(), await self._ask(*key))
                self._known[key] = known
        if isinstance(known.answer, ApiError):
            raise known.answer
        return known.answer

    async def _ask(self, resource: Resource, namespace: str | None, selector: str, fields: str) -> _Answer:
        try:
            found = await self._client.list(resource, namespace, selector=selector, fields=fields, patience=BRIEF)
        except ApiError as error:
            return error
        return found.items
