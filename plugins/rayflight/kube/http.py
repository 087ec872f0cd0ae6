"""HTTP to one Kubernetes API: deadlines on every call, retries within a budget, one error tree. Knows no objects.

httpx and not kubernetes_asyncio, measured (docs/decisions/0013-raw-http-to-kubernetes.md): a task process pays 0.07 s
for this import, and would pay 0.95 s and 90 MB for generated models that nobody here reads.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from rayflight.errors import ApiError, ApiUnreachable, InvalidSpec, TokenRefused
from rayflight.kube.endpoint import Endpoint
from rayflight.kube.refusals import Call, refusal, status_of, unreachable

CONNECT_SECONDS = 5.0
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 4.0
_RENEW_SECONDS = 10.0  # between two readings of a kubeconfig whose server refuses us or cannot be reached
# A peer that vanished without a word is noticed within half a minute, also on a silent watch.
_KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds: how long one answer may take, and for how long a failure is asked again (0: once)."""

    read: float
    retry: float = 0.0


# An API server restarts in 3 s; longer outages are for those who wait, not for one call.
PATIENT = Patience(read=30.0, retry=20.0)
BRIEF = Patience(read=5.0, retry=2.0)  # for what is looked at again and again
ONCE = Patience(read=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``call`` is for the sentences of errors."""

    method: str
    path: str
    call: Call
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    patience: Patience = PATIENT
    repeatable: bool = True  # a second arrival does no harm


class KubeHttp:
    """A connection pool to one endpoint. ``sleep`` is a seam for tests."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        renew: Callable[[], Awaitable[Endpoint]] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._sleep = sleep
        self._renew, self._renewed_at = renew, -_RENEW_SECONDS
        self._client = _client(endpoint)
        self._retired: httpx.AsyncClient | None = None

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._endpoint.server

    async def send(self, request: Request) -> Response:
        """The answer, success or not. Raises ApiUnreachable after the budget; 429 and 5xx are answers by then."""
        deadline = time.monotonic() + request.patience.retry
        attempt = 0
        while True:
            try:
                answer = await self._once(request)
            except ApiUnreachable as error:
                if _no_connection(error) and await self._renewed():
                    continue
                wait = backoff(attempt)
                if not _may_repeat(request, error) or time.monotonic() + wait > deadline:
                    raise
            else:
                wait = retry_after(answer.headers, backoff(attempt))
                busy = answer.status == 429 or (answer.status >= 500 and request.repeatable)
                if not busy or time.monotonic() + wait > deadline:
                    return answer
            attempt += 1
            await self._sleep(wait)

    async def checked(self, request: Request, *accept: int) -> Response:
        """As ``send``, but an answer that is neither a success nor one of ``accept`` raises the error it stands for."""
        answer = await self.send(request)
        if answer.status < 400 or answer.status in accept:
            return answer
        raise self._refusal(answer.status, answer.headers, answer.body, request.call)

    @asynccontextmanager
    async def stream(self, request: Request, *accept: int) -> AsyncIterator[httpx.Response]:
        """An answer that is read while it comes. Not retried: the reader knows how to go on. Raises as ``checked``."""
        with _mapped(request.call):
            sent = self._client.build_request(**await self._arguments(request))
            answer = await self._client.send(sent, stream=True)
            try:
                if answer.status_code >= 400 and answer.status_code not in accept:
                    if answer.status_code == 401:
                        self._endpoint.credentials.forget()
                    raise self._refusal(answer.status_code, answer.headers, await answer.aread(), request.call)
                yield answer
            finally:
                await answer.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        if self._retired:
            await self._retired.aclose()

    async def _renewed(self) -> bool:
        """Read server, authority and credentials from their source again: it may have been rotated while we ran."""
        if self._renew is None or time.monotonic() - self._renewed_at < _RENEW_SECONDS:
            return False
        self._renewed_at = time.monotonic()
        try:
            self._endpoint = await self._renew()
        except (InvalidSpec, ApiError):  # half-written just now, or gone: what we have is as good
            return False
        # Others may still read from the one before: it is closed when it is replaced again.
        older, self._retired, self._client = self._retired, self._client, _client(self._endpoint)
        if older:
            await older.aclose()
        return True

    async def _once(self, request: Request) -> Response:
        with _mapped(request.call):
            async with asyncio.timeout(CONNECT_SECONDS + request.patience.read):
                answer = await self._client.request(**await self._arguments(request))
                if answer.status_code == 401 and status_of(answer.content):  # a rotated token: ask its source again
                    self._endpoint.credentials.forget()
                    answer = await self._client.request(**await self._arguments(request))
                if answer.status_code == 401 and status_of(answer.content) and await self._renewed():
                    answer = await self._client.request(**await self._arguments(request))
        return Response(status=answer.status_code, headers=answer.headers, body=answer.content)

    @staticmethod
    def _refusal(status: int, headers: Mapping[str, str], body: bytes, call: Call) -> ApiError:
        error = refusal(status, body, call)
        if isinstance(error, ApiUnreachable):
            error.retry_after = retry_after(headers, 0.0) or None
        return error

    async def _arguments(self, request: Request) -> dict[str, Any]:
        headers = {"Accept": "application/json", **await self._endpoint.credentials.headers(), **request.headers}
        name = self._endpoint.tls_name
        return {
            "method": request.method,
            "url": request.path,
            "params": request.params or None,
            "headers": headers,
            "content": request.body,
            "timeout": httpx.Timeout(request.patience.read, connect=CONNECT_SECONDS),
            "extensions": {"sni_hostname": name} if name else None,
        }


def _client(endpoint: Endpoint) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(
        verify=endpoint.tls,
        socket_options=_KEEPALIVE,
        proxy=endpoint.proxy,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=16),
    )
    return httpx.AsyncClient(base_url=endpoint.server, transport=transport)


class _mapped:  # noqa: N801 - used as a statement
    """Turns what httpx raises into ApiUnreachable."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (httpx.TransportError, TimeoutError)):
            raise unreachable(self._call, _reason(error)) from error
        if isinstance(error, TokenRefused):
            error.status = 401


def _reason(error: BaseException) -> str:
    """httpx says "All connection attempts failed" for everything: the operating system's words are deeper."""
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    if isinstance(error, (httpx.TimeoutException, TimeoutError)):
        return "no answer in time"
    deepest: BaseException | None = error
    said = str(error) or type(error).__name__
    while deepest is not None:
        if isinstance(deepest, OSError) and str(deepest):
            said = str(deepest)
        deepest = deepest.__cause__ or deepest.__context__
    return said


def backoff(attempt: int) -> float:
    """Exponential with full jitter in the upper half, so that many who wait do not come back together."""
    longest = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(attempt, 10))
    return longest * (0.5 + random.random() / 2)  # noqa: S311 - jitter, not a secret


def retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    """Seconds that the server asks for (never less than ``otherwise``); HTTP dates are not used by Kubernetes."""
    text = headers.get("retry-after", "")
    return max(float(text), otherwise) if text.isdigit() else otherwise


def _no_connection(error: ApiUnreachable) -> bool:
    return isinstance(error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout))


def _may_repeat(request: Request, error: ApiUnreachable) -> bool:
    cause = error.__cause__
    if isinstance(cause, httpx.ConnectError) and "CERTIFICATE_VERIFY_FAILED" in str(cause):
        return False  # no patience heals a wrong authority
    return request.repeatable or _no_connection(error)
