"""How requests reach Ray from here: through the API server's proxy, or directly; with the token where there is one.

Implements ``rayjobs.transport.Transport``. Judges no answer, except Ray's plain-text 401, which means: bring the token.
"""

from __future__ import annotations

import base64
import json as jsonlib
from collections.abc import Awaitable, Callable
from typing import Literal

from rayflight.errors import ApiUnreachable
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.refusals import status_of
from rayflight.kube.resources import SECRETS
from rayflight.manifests.auth import TOKEN_KEY
from rayflight.rayjobs.agent import AGENT_PORT
from rayflight.rayjobs.transport import TOKEN_HEADER, HttpxTransport, Request, Response, Transport

DASHBOARD_PORT = 8265
GetToken = Callable[[], Awaitable[str | None]]


class ProxyTransport(Transport):
    """Through ``services/NAME:PORT/proxy`` or ``pods/NAME:PORT/proxy`` of the API server."""

    def __init__(
        self, client: KubeClient, target: Literal["services", "pods"], name: str, port: str | int, namespace: str
    ) -> None:
        self._client, self._target = client, target
        self._name, self._port, self._namespace = name, port, namespace

    async def send(self, request: Request) -> Response:
        """Send and read the whole answer."""
        content, given = request.content, {"Accept": "*/*", **request.headers}
        if request.json is not None:
            content, given = jsonlib.dumps(request.json).encode(), {"Content-Type": "application/json", **given}
        answer = await self._client.proxy(
            self._target,
            self._name,
            self._port,
            self._namespace,
            request.path,
            method=request.method,
            params=request.params or None,
            headers=given,
            body=content,
            read_seconds=request.timeout,
        )
        lowered = {key.lower(): value for key, value in answer.headers.items()}
        return Response(status=answer.status, headers=lowered, body=answer.body)


class TokenTransport(Transport):
    """Adds Ray's token once Ray has asked for one, and reads it anew when Ray refuses it."""

    def __init__(self, inner: Transport, get_token: GetToken) -> None:
        self._inner, self._get_token = inner, get_token
        self._token: str | None = None

    async def send(self, request: Request) -> Response:
        """Send; and once more with the token, if it was the token that was missing. Ray did nothing then."""
        brought = self._token
        answer = await self._inner.send(_proven(request, brought))
        if _wants_token(answer):
            fresh = await self._get_token()
            if fresh and fresh != brought:  # another request may have kept it already
                self._token = fresh
                answer = await self._inner.send(_proven(request, fresh))
        return answer


class FallbackTransport(Transport):
    """The service's named port, or the head pod's own port where the service has none of that name.

    The API server says "no endpoints available" for both: a port that nobody declared, and a head that is away.
    """

    def __init__(self, first: Transport, second: Callable[[], Awaitable[Transport | None]]) -> None:
        self._first, self._second = first, second
        self._chosen: Transport | None = None

    async def send(self, request: Request) -> Response:
        """Send to what answered last."""
        if self._chosen is not None:
            try:
                return await self._chosen.send(request)
            except ApiUnreachable:
                self._chosen = None  # that head pod may be gone: the next request asks the service first
                raise
        try:
            return await self._first.send(request)
        except ApiUnreachable as error:
            second = await self._second() if "no endpoints available" in str(error) else None
            if second is None:
                raise
        self._chosen = second
        return await second.send(request)


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


def _proven(request: Request, token: str | None) -> Request:
    return request.adding({TOKEN_HEADER: f"Bearer {token}"}) if token else request


def _wants_token(answer: Response) -> bool:
    """Ray says it in plain text; a JSON Status is the API server's and means the connection's own credentials."""
    if answer.status not in (401, 403) or status_of(answer.body):
        return False
    return "authentication token" in answer.text
