"""A small JSON client of the Kubernetes API for the testbed's own needs: readiness, node status, a few objects."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from testbed.errors import TestbedError

Json = dict[str, Any]


class ApiClient:
    """Speaks as the holder of a client certificate; one connection per request, short deadlines."""

    def __init__(self, server: str, authority: Path, certificate: Path, key: Path) -> None:
        self.server = server
        self._address = urlsplit(server).netloc
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(certificate, key)

    def request(self, method: str, path: str, body: Json | None = None, *, patch: str = "merge") -> tuple[int, Json]:
        """Status code and JSON answer; raises OSError when the server cannot be reached."""
        connection = http.client.HTTPSConnection(self._address, timeout=10, context=self._context)
        kind = f"application/{patch}-patch+json" if method == "PATCH" else "application/json"
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": kind, "Accept": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.server}: {error!r}") from error
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, {"text": text.decode(errors="replace")}

    def get(self, path: str) -> Json:
        return self._expect("GET", path, None, (200,))

    def create(self, path: str, body: Json) -> None:
        """Create it unless an object of that name is there."""
        self._expect("POST", path, body, (200, 201, 202, 409))

    def patch(self, path: str, body: Json) -> Json:
        return self._expect("PATCH", path, body, (200,))

    def delete(self, path: str) -> None:
        """Delete it; nothing there is fine."""
        self._expect("DELETE", path, None, (200, 202, 404))

    def is_ready(self) -> bool:
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def _expect(self, method: str, path: str, body: Json | None, good: tuple[int, ...]) -> Json:
        status, answer = self.request(method, path, body)
        if status not in good:
            raise TestbedError(f"{method} {path} answered {status}: {answer.get('message', answer)}")
        return answer
