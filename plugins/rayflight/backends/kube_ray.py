"""How requests reach Ray from here: through the API server's proxy, or directly; with the token where there is one.

Implements ``rayjobs.transport.Transport``. Judges no answer, except Ray's plain-text 401, which means: bring the token.
"""

from __future__ import annotations

import base64
import json as jsonlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from rayflight.errors import ApiUnreachable
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.refusals import status_of
from rayflight.kube.resources import SECRETS
from rayflight.manifests.auth import TOKEN_KEY
from rayflight.rayjobs.agent import AGENT_PORT
from rayflight.rayjobs.transport import DEFAULT_TIMEOUT, TOKEN_HEADER, HttpxTransport, Response, Transport

DASHBOARD_PORT = 8265
GetToken = Callable[[], Awaitable[str | None]]


class ProxyTransport:
    """Through ``services/NAME:PORT/proxy`` or ``pods/NAME:PORT/proxy`` of the API server."""

    def __init__(
        self, client: KubeClient, target: Literal["services", "pods"], name: str, port: str | int, namespace: str
    ) -> None:
        self._client, self._target = client, target
        self._name, self._port, self._namespace = name, port, namespace

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Send and read the whole answer."""
        given = {"Accept": "*/*", **(headers or {})}
        if json is not None:
            content, given = jsonlib.dumps(json).encode(), {"Content-Type": "application/json", **given}
        answer = await self._client.proxy(
            self._target,
            self._name,
            self._port,
            self._namespace,
            path,
            method=method,
            params=params,
            headers=given,
            body=content,
            read_seconds=timeout or DEFAULT_TIMEOUT,
        )
        lowered = {key.lower(): value for key, value in answer.headers.items()}
        return Response(status=answer.status, headers=lowered, body=answer.body)


class TokenTransport:
    """Adds Ray's token once Ray has asked for one, and reads it anew when Ray refuses it."""

    def __init__(self, inner: Transport, get_token: GetToken) -> None:
        self._inner, self._get_token = inner, get_token
        self._token: str | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Send; and once more with the token, if it was the token that was missing. Ray did nothing then."""

        async def send(token: str | None) -> Response:
            proof = {TOKEN_HEADER: f"Bearer {token}"} if token else {}
            given = {**(headers or {}), **proof}
            return await self._inner.request(
                method, path, json=json, content=content, headers=given, params=params, timeout=timeout
            )

        brought = self._token
        answer = await send(brought)
        if _wants_token(answer):
            fresh = await self._get_token()
            if fresh and fresh != brought:  # another request may have kept it already
                self._token = fresh
                answer = await send(fresh)
        return answer


class FallbackTransport:
    """The service's named port, or the head pod's own port where the service has none of that name.

    The API server says "no endpoints available" for both: a port that nobody declared, and a head that is away.
    """

    def __init__(self, first: Transport, second: Callable[[], Awaitable[Transport | None]]) -> None:
        self._first, self._second = first, second
        self._chosen: Transport | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Send to what answered last."""
        more: dict[str, Any] = {"json": json, "content": content, "headers": headers, "params": params}
        if self._chosen is not None:
            try:
                return await self._chosen.request(method, path, timeout=timeout, **more)
            except ApiUnreachable:
                self._chosen = None  # that head pod may be gone: the next request asks the service first
                raise
        try:
            return await self._first.request(method, path, timeout=timeout, **more)
        except ApiUnreachable as error:
            second = await self._second() if "no endpoints available" in str(error) else None
            if second is None:
                raise
        self._chosen = second
        return await second.request(method, path, timeout=timeout, **more)


def direct(service: str, namespace: str) -> HttpxTransport:
    """By cluster DNS: for an Airflow that runs inside the cluster."""
    return HttpxTransport(f"http://{service}.{namespace}.svc:{DASHBOARD_PORT}")


def agent(client: KubeClient, pod: str, namespace: str) -> ProxyTransport:
    """The dashboard agent of one pod: it serves that pod's log folder with HTTP ranges."""
    return ProxyTransport(client, "pods", pod, AGENT_PORT, namespace)


async def read_token(client: KubeClient, cluster: JsonObject) -> str | None:
    """The token of that stored RayCluster, or None when it names no Secret. Raises PermissionMissing for the Secret."""
    name, key = token_reference(cluster)
    secret = await client.get(SECRETS, name, cluster["metadata"]["namespace"])
    value = (secret or {}).get("data", {}).get(key)
    return base64.b64decode(value).decode() if value else None


def token_reference(cluster: JsonObject) -> tuple[str, str]:
    """(Secret, key): what authOptions says, else what the head's environment says, else KubeRay's own names."""
    spec = cluster.get("spec") or {}
    named = (spec.get("authOptions") or {}).get("secretName")
    if named:
        return str(named), TOKEN_KEY
    template: JsonObject = (spec.get("headGroupSpec") or {}).get("template") or {}
    containers: list[JsonObject] = (template.get("spec") or {}).get("containers") or [{}]
    for variable in containers[0].get("env") or ():
        if variable.get("name") == "RAY_AUTH_TOKEN":
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
            return str(reference.get("name")), str(reference.get("key"))
    return str(cluster["metadata"]["name"]), TOKEN_KEY


def _wants_token(answer: Response) -> bool:
    """Ray says it in plain text; a JSON Status is the API server's and means the connection's own credentials."""
    if answer.status not in (401, 403) or status_of(answer.body):
        return False
    return "authentication token" in answer.text
