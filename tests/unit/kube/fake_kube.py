"""A tiny API server on loopback: lists, watches, writes, and the faults that real ones have. Refuses the unexpected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from rayflight.kube.access import KubeAccess

PODS = "/api/v1/namespaces/ns/pods"
EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Expired",
    "code": 410,
    "message": "old",
}
REASONS = {200: "OK", 201: "Created", 206: "Partial Content"}


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


@dataclass
class Answer:
    """A fault or a scripted answer; ``drop`` cuts the connection instead, ``hang`` never answers."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    hang: bool = False
    when: Callable[[Seen], bool] = lambda _: True


def status(code: int, message: str, reason: str = "") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "code": code,
        "message": message,
    }


def an_object(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more.pop("metadata", {})}, **more}


class FakeKube:
    """Serves the collections that were opened with ``serve``; anything else is an error of the test."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.unexpected: list[str] = []
        self.collections: dict[str, dict[str, dict[str, Any]]] = {}
        self.scripted: dict[tuple[str, str], Answer] = {}
        self.faults: list[Answer] = []
        self._history: list[tuple[int, str, str, dict[str, Any]]] = []
        self._version, self._oldest = 100, 0
        self._watchers: dict[asyncio.StreamWriter, str] = {}
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: object, *rest: object) -> None:
        self._server.close()
        tasks = [task for task in self._connections.values() if task]
        for writer in list(self._connections):
            writer.transport.abort()
        await asyncio.gather(*tasks)
        assert kind or not self.unexpected, f"unexpected requests: {self.unexpected}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def access(self, **more: Any) -> KubeAccess:
        user = {"token": "secret-token"}
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": user}],
        }
        return KubeAccess(inline=config, **more)

    def serve(self, *paths: str) -> None:
        for path in paths:
            self.collections.setdefault(path, {})

    def script(self, method: str, path: str, body: Any, code: int = 200, **headers: str) -> None:
        self.scripted[method, path] = Answer(status=code, body=body, headers=headers)

    def fail(self, code: int, message: str = "fault", *, times: int = 1, when: Any = None, **headers: str) -> None:
        fault = Answer(status=code, body=status(code, message), headers=headers, when=when or (lambda _: True))
        self.faults += [fault] * times

    def drop(self, *, times: int = 1) -> None:
        self.faults += [Answer(drop=True)] * times

    def put(self, path: str, item: dict[str, Any]) -> None:
        kind = "MODIFIED" if item["metadata"]["name"] in self.collections[path] else "ADDED"
        self._version += 1
        stored = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
        self.collections[path][item["metadata"]["name"]] = stored
        self._record(kind, path, stored)

    def remove(self, path: str, name: str) -> None:
        gone = self.collections[path].pop(name)
        self._version += 1
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}}
        self._record("DELETED", path, gone)

    def bookmark(self, path: str) -> None:
        self._version += 1
        self._record("BOOKMARK", path, {"metadata": {"resourceVersion": str(self._version)}})

    def compact(self) -> None:
        """From now on versions before this moment answer 410."""
        self._version += 1
        self._oldest = self._version
        self._history.clear()

    def drop_watches(self) -> None:
        """Cut every watch in the middle of its stream."""
        for writer in list(self._watchers):
            writer.transport.abort()
        self._watchers.clear()

    def count(self, path: str, *, watch: bool) -> int:
        return sum(1 for seen in self.requests if seen.path == path and seen.is_watch == watch)

    def watching(self, path: str) -> int:
        return sum(1 for watched in self._watchers.values() if watched == path)

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Returns when the predicate holds; asked after every request and change."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(predicate)

    def _record(self, kind: str, path: str, item: dict[str, Any]) -> None:
        self._history.append((self._version, path, kind, item))
        for writer, watched in list(self._watchers.items()):
            if watched == path:
                _chunk(writer, {"type": kind, "object": item})

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        try:
            while not writer.is_closing():
                seen = await _read(reader)
                self.requests.append(seen)
                await self._answer(seen, writer)
                await self._notify()
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            self._connections.pop(writer)
            self._watchers.pop(writer, None)
            writer.close()
            await self._notify()

    async def _answer(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        fault = next((item for item in self.faults if item.when(seen)), None)
        if fault:
            self.faults.remove(fault)
            if fault.drop:
                writer.transport.abort()
            elif not fault.hang:
                _reply(writer, fault)
        elif (seen.method, seen.path) in self.scripted:
            _reply(writer, self.scripted[seen.method, seen.path])
        elif seen.method == "GET" and seen.path in self.collections:
            (self._watch if seen.is_watch else self._list)(seen, writer)
        else:
            self.unexpected.append(f"{seen.method} {seen.path}")
            _reply(writer, Answer(status=404, body=status(404, "the fake does not know that", "NotFound")))

    def _list(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        items = list(self.collections[seen.path].values())
        _reply(writer, Answer(body={"metadata": {"resourceVersion": str(self._version)}, "items": items}))

    def _watch(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        since = int(seen.query["resourceVersion"])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        if since < self._oldest:
            _chunk(writer, {"type": "ERROR", "object": EXPIRED})
            writer.write(b"0\r\n\r\n")
            return
        self._watchers[writer] = seen.path
        for version, path, kind, item in self._history:
            if path == seen.path and version > since:
                _chunk(writer, {"type": kind, "object": item})


def _chunk(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    line = json.dumps(event).encode() + b"\n"
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


def _reply(writer: asyncio.StreamWriter, answer: Answer) -> None:
    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
    headers = {"Content-Type": kind, "Content-Length": str(len(body)), **answer.headers}
    lines = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'X')}\r\n{lines}\r\n".encode() + body)


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    return Seen(method, parts.path, dict(parse_qsl(parts.query)), headers, body)
