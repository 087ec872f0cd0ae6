"""A JSON webhook where Airflow's HTTP provider is not installed. Reads an ``http`` connection as that provider does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx
from airflow.sdk import BaseHook, BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

_SECONDS = 10.0
# Extras of an http connection that are no headers (HttpHook's own list).
_OPTIONS = {
    "allow_redirects", "cert", "check_response", "max_redirects", "proxies", "proxy", "stream", "timeout", "trust_env",
    "verify",
}  # fmt: skip


class JsonWebhook(BaseNotifier):
    """POSTs ``data`` to the connection's URL and endpoint. Raises on anything but 2xx."""

    def __init__(self, *, http_conn_id: str, endpoint: str, data: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.http_conn_id, self.endpoint, self.data = http_conn_id, endpoint, data

    def notify(self, context: Context) -> None:
        """In a task or in the DAG processor."""
        request = self._request(BaseHook.get_connection(self.http_conn_id))
        with httpx.Client(timeout=_SECONDS) as client:
            client.post(**request).raise_for_status()

    async def async_notify(self, context: Context) -> None:
        """On the triggerer."""
        request = self._request(await BaseHook.aget_connection(self.http_conn_id))
        async with httpx.AsyncClient(timeout=_SECONDS) as client:
            (await client.post(**request)).raise_for_status()

    def _request(self, connection: Connection) -> dict[str, Any]:
        headers = {key: str(value) for key, value in connection.extra_dejson.items() if key not in _OPTIONS}
        return {
            "url": url(connection, self.endpoint),
            "content": json.dumps(self.data).encode(),
            "headers": {"Content-Type": "application/json", **headers},
            "auth": (connection.login, connection.password or "") if connection.login else None,
        }


def url(connection: Connection, endpoint: str) -> str:
    """Host, port and scheme of the connection, and the endpoint behind it."""
    host = connection.host or ""
    base = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    base = f"{base}:{connection.port}" if connection.port else base
    return f"{base.rstrip('/')}/{endpoint.lstrip('/')}" if endpoint else base
