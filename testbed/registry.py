"""The registry that the nodes ask for images they do not have: it has none, and answers as a real one would.

Without it a missing image shows as a DNS failure; with it kubelet says `not found`, as in a real cluster. Image names
choose the answer, so that tests can have each: `.../private/...` 401, `.../limited/...` 429 (pull rate limit),
`.../slow/...` keeps the pull waiting for ten minutes, everything else 404.
Run as `python -m testbed.registry HOST PORT`.
"""

import json
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 5000
_ANSWERS = {
    "private": (HTTPStatus.UNAUTHORIZED, "UNAUTHORIZED", "authentication required"),
    "limited": (HTTPStatus.TOO_MANY_REQUESTS, "TOOMANYREQUESTS", "You have reached your pull rate limit."),
}
_MISSING = (HTTPStatus.NOT_FOUND, "MANIFEST_UNKNOWN", "manifest unknown")
_SLOW_SECONDS = 600


def answer_for(path: str) -> tuple[HTTPStatus, str, str]:
    """Status, error code and message for a request path such as /v2/library/private/tool/manifests/1."""
    return next((answer for word, answer in _ANSWERS.items() if word in path.split("/")), _MISSING)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if "slow" in self.path.split("/"):
            time.sleep(_SLOW_SECONDS)
        status, code, message = answer_for(self.path)
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name is the base class' own


if __name__ == "__main__":
    ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), _Handler).serve_forever()
