"""How requests reach a Ray dashboard or one of its agents. Carries bytes; judges no status and knows no endpoint.

A transport answers with whatever the server said, and raises ``errors.ApiUnreachable`` only when there was no answer in
time. The Kubernetes backend has a transport of its own (the API server's proxy); this module holds the contract and the
direct one. ``httpx`` is imported when the first request is made: DAG files import this module.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from rayflight.errors import ApiUnreachable

if TYPE_CHECKING:
    import httpx

TOKEN_HEADER = "X-Ray-Authorization"  # noqa: S105 - `Authorization` would be consumed by the API server's proxy
DEFAULT_TIMEOUT = 10.0
CONNECT_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer, whole. Header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON data. Raises ValueError when it is none."""
        return jsonlib.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``path`` starts with a slash and is relative to the server's root.

    ``timeout`` is in seconds, for the whole exchange.
    """

    method: str
    path: str
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    timeout: float = DEFAULT_TIMEOUT

    def adding(self, headers: Mapping[str, str]) -> Request:
        """The same with these headers too."""
        return replace(self, headers={**self.headers, **headers})


class Transport(ABC):
    """A way to one server."""

    @abstractmethod
    async def send(self, request: Request) -> Response:
        """Send and read the whole answer. Raises errors.ApiUnreachable when none came; never raises for a status."""

    async def request(self, method: str, path: str, **more: Any) -> Response:
        """``send`` of a Request with these fields; None means that field's default."""
        given = {name: value for name, value in more.items() if value is not None}
        return await self.send(Request(method=method, path=path, **given))


class HttpxTransport(Transport):
    """Straight to ``base_url``, without proxies of the environment: a dashboard is an inside address.

    ``socket`` is a socket file through which that address is reached.
    """

    def __init__(self, base_url: str, token: str | None = None, *, socket: str | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        self._socket = socket
        self._token = token
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; a later request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(self, request: Request) -> Response:
        """Send and read the whole answer within the request's time (httpx's own limit is per read, not in all)."""
        import httpx  # noqa: PLC0415 - see the module's docstring

        limit = request.timeout
        if self._token:
            request = request.adding({TOKEN_HEADER: f"Bearer {self._token}"})
        try:
            async with asyncio.timeout(limit):
                answer = await self._open().request(
                    request.method,
                    request.path,
                    json=request.json,
                    content=request.content,
                    headers=dict(request.headers),
                    params=dict(request.params) or None,
                    timeout=httpx.Timeout(limit, connect=min(limit, CONNECT_TIMEOUT)),
                )
        except TimeoutError as error:
            raise self._unreachable(request, f"no answer within {limit:g} s") from error
        except httpx.TransportError as error:
            raise self._unreachable(request, f"{type(error).__name__} {error}".strip()) from error
        return Response(
            status=answer.status_code,
            headers={key.lower(): value for key, value in answer.headers.items()},
            body=answer.content,
        )

    def _open(self) -> httpx.AsyncClient:
        import httpx  # noqa: PLC0415 - see the module's docstring

        if self._client is None:
            way = httpx.AsyncHTTPTransport(uds=self._socket) if self._socket else None
            self._client = httpx.AsyncClient(base_url=self.base_url, trust_env=False, transport=way)
        return self._client

    def _unreachable(self, request: Request, why: str) -> ApiUnreachable:
        return ApiUnreachable(
            "Ray did not answer",
            which=f"{request.method} {self.base_url}{request.path}",
            why=why,
            next_step="see whether the head pod is Ready and its dashboard address is reachable from here",
        )
