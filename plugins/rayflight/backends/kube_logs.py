"""The logs of both layers: containers through the API server, Ray's log files through the agent of each pod.

Reads only. ``LogFile.source`` is ``pods/POD/CONTAINER[/previous]`` or ``ray/POD``, so that any process can read it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any
from urllib.parse import unquote

from rayflight.backends.base import ClusterRef, LogFile
from rayflight.backends.kube_ray import GetToken, TokenTransport, agent
from rayflight.backends.kube_topics import CLUSTER_LABEL
from rayflight.backends.log_choice import cut_mark, head_and_tail, is_worth_keeping, rank
from rayflight.errors import ApiError, ApiUnreachable
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import PODS
from rayflight.rayjobs.agent import read_part, read_range
from rayflight.rayjobs.refusals import refusal
from rayflight.rayjobs.transport import Transport

_BLOCK = 1024 * 1024
_FILES_PER_POD = 60  # worker-*: two files per process; the newest failures are in the driver log anyway
_LINK = re.compile(r'href="[^"]*?/logs/([^"]+)"')  # the API server's proxy prefixes links with its own path
_FOLDERS = ("jobs/", "train/")


class KubeLogs:
    """Logs of one cluster."""

    def __init__(self, client: KubeClient, ref: ClusterRef, get_token: GetToken) -> None:
        self._client, self._ref, self._get_token = client, ref, get_token
        self._agents: dict[str, Transport] = {}

    def agent(self, pod: str) -> Transport:
        """The way to that pod's dashboard agent."""
        if pod not in self._agents:
            self._agents[pod] = TokenTransport(agent(self._client, pod, self._ref.namespace), self._get_token)
        return self._agents[pod]

    async def list(self) -> Sequence[LogFile]:
        """Every log that can be read now. Raises when not even the pods can be listed."""
        pods = (await self._client.list(PODS, self._ref.namespace, selector=f"{CLUSTER_LABEL}={self._ref.name}")).items
        containers = [log for pod in pods for log in _containers(pod)]
        files = await asyncio.gather(*(self._files(pod) for pod in pods if _runs(pod)))
        return [*containers, *(log for listed in files for log in listed)]

    async def read(self, log: LogFile, limit: int) -> AsyncIterator[bytes]:
        """At most ``limit`` bytes and a mark: head and tail are kept, for causes stand at both ends."""
        if log.missing:
            raise ApiError("Cannot read the log", which=log.name, why=log.missing)
        kind, pod, *rest = log.source.split("/")
        name = log.name.partition("/")[2]
        bounded = self._file(pod, name, limit) if kind == "ray" else head_and_tail(self._container(pod, rest), limit)
        async for block in bounded:
            yield block

    def _container(self, pod: str, rest: Sequence[str]) -> AsyncGenerator[bytes]:
        return self._client.logs(pod, self._ref.namespace, rest[0], previous=len(rest) > 1)

    async def _file(self, pod: str, name: str, limit: int) -> AsyncGenerator[bytes]:
        """Head and tail by byte range: what lies between is not even sent."""
        half = limit // 2
        first, total = await read_part(self.agent(pod), name, 0, min(_BLOCK, half))
        yield first
        if total is None or total <= len(first):
            return
        head, tail = (half, total - half) if total > limit else (total, total)
        async for block in self._between(pod, name, len(first), head):
            yield block
        if tail > head:
            yield cut_mark(tail - head)
        async for block in self._between(pod, name, tail, total):
            yield block

    async def _between(self, pod: str, name: str, start: int, end: int) -> AsyncGenerator[bytes]:
        while start < end and (block := await read_range(self.agent(pod), name, start, min(_BLOCK, end - start))):
            yield block
            start += len(block)

    async def _files(self, pod: JsonObject) -> Sequence[LogFile]:
        """Ray's log files in that pod, and what of them cannot be had."""
        name = pod["metadata"]["name"]
        try:
            folders = await asyncio.gather(*(self._index(name, folder) for folder in ("", *_FOLDERS)))
        except ApiError as error:
            return [LogFile(source=f"ray/{name}", name=f"{name}/ray", missing=f"Ray's log files: {error}")]
        worth = sorted((file for folder in folders for file in folder if is_worth_keeping(file)), key=rank)
        found = [LogFile(source=f"ray/{name}", name=f"{name}/{file}") for file in worth[:_FILES_PER_POD]]
        left = worth[_FILES_PER_POD:]
        why = f"{len(left)} more files were left out, the last of them {left[-1]}" if left else ""
        return [*found, *([LogFile(source=f"ray/{name}", name=f"{name}/more", missing=why)] if left else [])]

    async def _index(self, pod: str, folder: str) -> Sequence[str]:
        answer = await self.agent(pod).request("GET", f"/logs/{folder}", timeout=10.0)
        if answer.status == 404 and folder:
            return []
        if answer.status != 200:
            raise refusal(answer, "Cannot list the log files", pod)
        return [unquote(link) for link in _LINK.findall(answer.text) if not link.endswith("/")]


def _containers(pod: JsonObject) -> list[LogFile]:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    logs: list[LogFile] = []
    for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state: dict[str, Any] = item.get("state") or {}
        source, archived = f"pods/{name}/{item['name']}", f"{name}/{item['name']}"
        if "running" in state or "terminated" in state:
            logs.append(LogFile(source=source, name=f"{archived}.log"))
        if item.get("restartCount"):
            logs.append(LogFile(source=f"{source}/previous", name=f"{archived}.previous.log"))
    return logs


def _runs(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def closed(error: ApiError) -> bool:
    """Whether that way to the files is closed (no right, no agent), so that another has to be taken."""
    return not isinstance(error, ApiUnreachable) or error.status in (403, 404, 502, 503)
