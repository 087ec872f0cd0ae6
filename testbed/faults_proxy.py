"""A proxy in front of the API server that answers 429 and 503, drops, cuts and hangs as it is told.

Standard library only. Listens on loopback, ends TLS with the testbed's own authority and speaks HTTP/1.1, one request
per connection, so that each request meets its own fate; watches, log streams and upgrades (exec) pass through as bytes.
A caller who shows the admin's certificate is passed on as admin; a bearer token is passed on as it is.
"""

import asyncio
import json
import re
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from testbed.controlplane import ADMIN
from testbed.errors import TestbedError
from testbed.pki import Authority

_HEAD_LIMIT = 256 * 1024  # a request head with a long token still fits
_CHUNK = 64 * 1024
_CONNECT_SECONDS = 10
_REASONS = {
    429: ("Too Many Requests", "TooManyRequests", "the server has received too many requests and has asked us to wait"),
    500: ("Internal Server Error", "InternalError", "an error on the server has prevented the request"),
    503: ("Service Unavailable", "ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Gateway Timeout", "Timeout", "request did not complete within the allotted timeout"),
}


@dataclass(frozen=True)
class Pass:
    """Hand the request on untouched."""


@dataclass(frozen=True)
class Answer:
    """Answer in the API server's place, with its own kind of Status object; the request does not reach it."""

    status: int = 503
    retry_after: int | None = None


@dataclass(frozen=True)
class Drop:
    """Close the connection without an answer. `after_request`: the API server carries the request out first."""

    after_request: bool = False


@dataclass(frozen=True)
class Cut:
    """Close the connection after this many bytes of the answer: half a list, a watch that breaks."""

    after_bytes: int = 0


@dataclass(frozen=True)
class Hang:
    """Take the request and be silent, then close."""

    seconds: float = 60.0


Outcome = Pass | Answer | Drop | Cut | Hang


@dataclass(frozen=True)
class Seen:
    """One request and what became of it."""

    line: str
    outcome: Outcome


class FlakyProxy:
    """Runs on a thread of its own between `start` and `stop`; the script may be changed at any time."""

    def __init__(self, authority: Authority, upstream: str, kubeconfig: Path, host: str, port: int) -> None:
        self._upstream = urlsplit(upstream)
        self._server_context, self._client_contexts = _contexts(authority, host)
        self._authority = authority
        self._host, self._port = host, port
        self.kubeconfig = kubeconfig
        self._script: tuple[re.Pattern[str], tuple[Outcome, ...]] = (re.compile(""), (Pass(),))
        self._position = count()
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="flaky-proxy", daemon=True)
        self._started: threading.Event = threading.Event()
        self._stopping = asyncio.Event()
        self._failure: OSError | None = None
        self.seen: list[Seen] = []

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return f"https://{self._host}:{self._port}"

    def follow(self, outcomes: Sequence[Outcome], match: str = "") -> None:
        """From now on, requests whose line (`GET /api/v1/pods?watch=1`) matches get these outcomes in turn, again and
        again; other requests pass. `follow([Answer(429), Pass()])` refuses every other request."""
        if not outcomes:
            raise TestbedError("a script of the flaky proxy needs at least one outcome; `clear()` ends the weather")
        self._position = count()
        self._script = (re.compile(match), tuple(outcomes))

    def clear(self) -> None:
        """Undo `follow`: everything passes."""
        self.follow([Pass()])

    def cut_open_connections(self) -> int:
        """Break every connection that is open now, watches and log streams too. Returns how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(timeout=10)

    def start(self) -> None:
        """Listen, and write the kubeconfig that leads here."""
        self._thread.start()
        self._started.wait(timeout=10)
        if self._failure is not None:
            self._thread.join(timeout=10)
            raise TestbedError(f"the flaky proxy cannot listen on {self._host}:{self._port}: {self._failure}")
        self._authority.kubeconfig(self.kubeconfig, self.url, "admin", ADMIN)

    def stop(self) -> None:
        """Close everything; safe to repeat."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout=10)
        self.kubeconfig.unlink(missing_ok=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as error:  # the port is taken: start() says so
            self._failure = error
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._accept, self._host, self._port, ssl=self._server_context, limit=_HEAD_LIMIT
        )
        self._port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()
        await self._cut()

    async def _cut(self) -> int:
        open_now = [task for task in self._connections if task is not asyncio.current_task()]
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)
        return len(open_now)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # a coroutine always runs in one
        self._connections.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await self._meet(_one_request_only(head), reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            pass  # one side went away: that is what this proxy is for
        except asyncio.CancelledError:
            pass  # cut on purpose; the stream protocol would log it as an error
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _meet(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let one request meet its outcome."""
        line = head.split(b" HTTP/", 1)[0].decode("latin-1")
        outcome = self._next(line)
        self.seen.append(Seen(line, outcome))
        match outcome:
            case Answer():
                await _read_body(head, reader)
                writer.write(_refusal(outcome))
                await writer.drain()
                await _close(writer)
            case Hang():
                await asyncio.sleep(outcome.seconds)
            case Drop(after_request=False):
                return
            case Drop():
                await self._forward(head, reader, writer, 0)
            case Cut():
                await self._forward(head, reader, writer, outcome.after_bytes)
            case Pass():
                await self._forward(head, reader, writer, None)

    def _next(self, line: str) -> Outcome:
        pattern, outcomes = self._script
        return outcomes[next(self._position) % len(outcomes)] if pattern.search(line) else Pass()

    async def _forward(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None
    ) -> None:
        context = self._client_contexts[_is_admin(writer) and b"\r\nauthorization:" not in head.lower()]
        connecting = asyncio.open_connection(self._upstream.hostname, self._upstream.port, ssl=context)
        up_reader, up_writer = await asyncio.wait_for(connecting, _CONNECT_SECONDS)
        try:
            up_writer.write(head)
            # Whichever side ends first ends both: a caller that went away leaves no watch open behind it.
            ways = [
                asyncio.create_task(_pump(reader, up_writer, None)),
                asyncio.create_task(_pump(up_reader, writer, limit)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
            if limit is None:
                await _close(writer)
        finally:
            up_writer.transport.abort()


@contextmanager
def flaky_proxy(
    authority: Authority, upstream: str, kubeconfig: Path, *, host: str = "127.0.0.1", port: int = 0
) -> Iterator[FlakyProxy]:
    """Run a proxy in front of `upstream` for the length of the block; everything passes until `follow` is called."""
    proxy = FlakyProxy(authority, upstream, kubeconfig, host, port)
    try:
        proxy.start()
        yield proxy
    finally:
        proxy.stop()


def _contexts(authority: Authority, host: str) -> tuple[ssl.SSLContext, dict[bool, ssl.SSLContext]]:
    """Contexts for listening, and for the way to the API server without and with the admin's certificate."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("flaky-proxy", "/CN=flaky-proxy", (host, "127.0.0.1", "localhost")))
    server.load_verify_locations(authority.certificate)
    server.verify_mode = ssl.CERT_OPTIONAL
    server.set_alpn_protocols(["http/1.1"])
    ways = {admin: ssl.create_default_context(cafile=str(authority.certificate)) for admin in (False, True)}
    ways[True].load_cert_chain(*authority.issue("admin", ADMIN))
    return server, ways


def _is_admin(writer: asyncio.StreamWriter) -> bool:
    certificate = writer.get_extra_info("peercert") or {}
    names = {f"{key}={value}" for part in certificate.get("subject", ()) for key, value in part}
    return {"organizationName=system:masters", "commonName=testbed-admin"} <= names


def _one_request_only(head: bytes) -> bytes:
    """Ask both sides to close after this request, so that the next one is seen too; an upgrade keeps its connection."""
    if b"\r\nupgrade:" in head.lower():
        return head
    kept = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


async def _read_body(head: bytes, reader: asyncio.StreamReader) -> None:
    """Take the request's body off the wire: closing with unread data would reset the connection before the answer."""
    length = re.search(rb"(?im)^content-length:\s*(\d+)", head)
    if length is not None:
        await reader.readexactly(int(length[1]))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
    passed = 0
    while data := await reader.read(_CHUNK):
        if limit is not None and passed + len(data) > limit:
            writer.write(data[: limit - passed])
            await writer.drain()
            return
        passed += len(data)
        writer.write(data)
        await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close in the polite way, so that the end of an answer arrives."""
    writer.close()
    with suppress(OSError, ssl.SSLError, TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), 2)


def _refusal(answer: Answer) -> bytes:
    phrase, reason, message = _REASONS.get(answer.status, ("Error", "InternalError", "an error made by the testbed"))
    status: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status |= {"message": message, "reason": reason, "code": answer.status}
    lines = [f"HTTP/1.1 {answer.status} {phrase}", "Content-Type: application/json", "Connection: close"]
    if answer.retry_after is not None:
        status["details"] = {"retryAfterSeconds": answer.retry_after}
        lines.append(f"Retry-After: {answer.retry_after}")
    body = json.dumps(status).encode()
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
