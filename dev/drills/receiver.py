"""A receiver of alerts on loopback: the channel that the drills' DAG tells, kept for counting."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONNECTION = "drill_alerts"


@dataclass
class Alerts:
    """What came, as JSON."""

    port: int
    posts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def connection(self) -> dict[str, object]:
        """It as an Airflow connection."""
        return {"conn_type": "http", "host": "127.0.0.1", "port": self.port}

    def of(self, run_id: str) -> list[dict[str, Any]]:
        """The problems that were told of a run."""
        return [post for post in list(self.posts) if post["run"]["run_id"] == run_id and post["kind"] == "problem"]


@contextmanager
def receiving() -> Iterator[Alerts]:
    """Listen for the length of the block."""
    posts: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield Alerts(server.server_address[1], posts)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
