"""The way out of the fence: a socket file that carries to a port, both ways, and tells when nobody listens."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rayflight.errors import ApiUnreachable
from rayflight.keeper import relay
from rayflight.rayjobs.transport import HttpxTransport


@pytest.fixture
def socket() -> Iterator[Path]:
    """Not pytest's tmp_path: the name of a socket must stay short."""
    with tempfile.TemporaryDirectory(prefix="rf-") as folder:
        yield Path(folder, "s")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    body = b"x" * 300_000 if b"GET /large" in head else b"small"
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
    await writer.drain()
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_requests_go_through_the_socket_file_whole(socket, port):
    async with await relay.serve(socket, port), HttpxTransport("http://127.0.0.1:1", socket=str(socket)) as ray:
        answers = await asyncio.gather(*(ray.request("GET", path) for path in ("/large", "/small", "/large")))
    assert [len(found.body) for found in answers] == [300_000, 5, 300_000]


async def test_only_its_owner_may_open_the_socket(socket, port):
    async with await relay.serve(socket, port):
        assert socket.stat().st_mode & 0o077 == 0


async def test_a_dashboard_that_does_not_listen_is_unreachable(socket, port):
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        closed = server.sockets[0].getsockname()[1]
    async with await relay.serve(socket, closed), HttpxTransport("http://127.0.0.1:1", socket=str(socket)) as ray:
        with pytest.raises(ApiUnreachable, match="disconnected"):
            await ray.request("GET", "/api/version", timeout=5)


async def test_a_socket_of_an_earlier_life_is_replaced(socket, port):
    socket.write_text("left over")
    async with await relay.serve(socket, port), HttpxTransport("http://127.0.0.1:1", socket=str(socket)) as ray:
        assert (await ray.request("GET", "/small")).body == b"small"


async def test_a_person_gets_an_address_for_the_browser(socket, port, capsys):
    async with await relay.serve(socket, port):
        served = asyncio.create_task(relay.for_people(str(socket), 0))
        while not (told := capsys.readouterr().out):  # noqa: ASYNC110 - it prints once
            await asyncio.sleep(0.01)
        address = told.split()[2]
        async with HttpxTransport(address) as browser:
            assert (await browser.request("GET", "/small")).body == b"small"
        served.cancel()
        await asyncio.gather(served, return_exceptions=True)
    assert address.startswith("http://127.0.0.1:")
