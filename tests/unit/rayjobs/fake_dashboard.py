"""A Ray dashboard on loopback that gives literal answers, once each in the given order, and refuses the unexpected."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """``hang`` never answers, ``drop`` cuts the connection."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False


class FakeDashboard:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.unexpected: list[str] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        self._released = asyncio.Event()

    def answer(self, method: str, path: str, *answers: Answer) -> None:
        """The last one is given again for ever."""
        self._answers[method, path] = list(answers)

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._released.set()
        await self._runner.cleanup()
        assert not self.unexpected, f"not expected: {self.unexpected}"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(
            Seen(request.method, request.path, dict(request.query), dict(request.headers), await request.read())
        )
        answers = self._answers.get((request.method, request.path))
        if not answers:
            self.unexpected.append(f"{request.method} {request.path}")
            return web.Response(status=599, text="not expected")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.hang:
            await self._released.wait()
        if (answer.drop or answer.hang) and request.transport is not None:
            request.transport.close()
        if isinstance(answer.body, bytes):
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        if isinstance(answer.body, str):
            return web.Response(status=answer.status, text=answer.body, headers=answer.headers)
        return web.json_response(answer.body, status=answer.status, headers=answer.headers)


def kube_status(code: int, message: str) -> dict[str, Any]:
    """What the API server's proxy says by itself."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": code,
    }
