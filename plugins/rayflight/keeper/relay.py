"""Carries bytes between two addresses: from a socket file out of the fence to the dashboard inside it, and for people.

A socket file does not belong to a network: whoever may open it reaches the dashboard, and that is its folder's owner.
``python -m rayflight.keeper.relay SOCKET`` opens a loopback port for a browser until Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_BLOCK = 256 * 1024


def carrier(connect: Callable[[], Awaitable[Streams]]) -> Callable[..., Awaitable[None]]:
    """What to do with each client: connect on, and copy both ways until both have ended."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await connect()
        except OSError:  # nobody listens (yet): the client sees a closed connection
            writer.close()
            return
        try:
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        finally:
            writer.close()
            inner_writer.close()

    return carry


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One way, until its end; the other end learns of it and ends the other way."""
    with contextlib.suppress(OSError):
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()


async def serve(path: Path, port: int) -> asyncio.Server:
    """Listen on a socket file that only its owner may open; carry to that port of our own loopback."""
    _clear(path)
    server = await asyncio.start_unix_server(
        carrier(lambda: asyncio.open_connection("127.0.0.1", port)), path=str(path)
    )
    _guard(path)
    return server


def _clear(path: Path) -> None:
    path.unlink(missing_ok=True)  # of an earlier life


def _guard(path: Path) -> None:
    path.chmod(0o600)


async def for_people(path: str, port: int) -> None:
    """Carry a loopback port to the socket file, without end."""
    server = await asyncio.start_server(carrier(lambda: asyncio.open_unix_connection(path)), "127.0.0.1", port)
    address = server.sockets[0].getsockname()
    where = f"http://{address[0]}:{address[1]}"
    sys.stdout.write(f"Ray dashboard: {where} (every user of this machine reaches it; Ctrl-C ends it)\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


def main() -> int:
    """Until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(for_people(options.socket, options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
