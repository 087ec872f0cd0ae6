"""Servers on loopback that take alerts: a small SMTP server, an HTTP receiver, one that never answers."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Smtp(socketserver.StreamRequestHandler):
    """Enough of RFC 5321 for smtplib and aiosmtplib; anything else is refused."""

    server: Any

    def handle(self) -> None:
        self._say("220 stub ESMTP")
        for line in self.rfile:
            verb = line.split(b" ")[0].strip().upper()
            if verb == b"DATA":
                self._say("354 go on")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                self.server.mails.append(message_from_bytes(b"".join(lines)))
                self._say("250 taken")
            elif verb == b"QUIT":
                self._say("221 bye")
                return
            elif verb in (b"EHLO", b"HELO", b"MAIL", b"RCPT", b"RSET", b"NOOP"):
                self._say("250 ok")
            else:
                self._say("502 not known here")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Http(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Nothing to say."""


@contextmanager
def _serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def smtp() -> Iterator[Any]:
    """``.mails`` are email messages, ``.server_address`` where it listens."""
    server: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp)
    server.daemon_threads = True
    server.mails = list[Message]()
    with _serving(server):
        yield server


@contextmanager
def http(status: int = 200) -> Iterator[Any]:
    """``.posts`` are (path, headers, JSON)."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Http)
    server.posts, server.status = [], status
    with _serving(server):
        yield server


@contextmanager
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def html_of(mail: Message) -> str:
    """The HTML part of a mail."""
    part = next(part for part in mail.walk() if part.get_content_type() == "text/html")
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()
