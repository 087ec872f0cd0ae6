"""The verbs of the Kubernetes API on any resource, as plain dicts. Deadlines on every call; decides nothing.

``get`` answers None for 404 and for nothing else: an error is never turned into "not found".
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rayflight.errors import ApiUnreachable, RequestRejected
from rayflight.kube.http import ONCE, PATIENT, KubeHttp, Patience, Request, Response
from rayflight.kube.refusals import Call, WatchExpired, refusal, status_of, unreachable
from rayflight.kube.resources import ACCESS_REVIEWS, PODS, SERVICES, Resource

JsonObject = dict[str, Any]
Propagation = Literal["Background", "Foreground", "Orphan"]
_PAGE = "500"  # as kubectl: an API server answers a page from etcd in one piece
# What the API server asks the rights for, whatever stands behind the proxy.
_PROXY_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MASKED_PROXY_ERRORS = (401, 403, 404, 429, 502, 503, 504)  # may be the API server's own, not the service's


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects of a list and the version from which to watch on."""

    items: list[JsonObject]
    version: str


class KubeClient:
    """One API server, any resource. ``http`` belongs to whoever made it."""

    def __init__(self, http: KubeHttp) -> None:
        self._http = http

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._http.server

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        patience: Patience = PATIENT,
    ) -> JsonObject | None:
        """The object, or None when the API says that there is none."""
        call = self._call("get", resource, namespace, name)
        path = resource.path(namespace, name)
        answer = await self._http.checked(Request(method="GET", path=path, call=call, patience=patience), 404)
        return None if answer.status == 404 else _json(answer)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        selector: str = "",
        fields: str = "",
        patience: Patience = PATIENT,
    ) -> Listing:
        """All objects, page by page. Most recent data: no resourceVersion is asked for, so no cache answers."""
        call = self._call("list", resource, namespace)
        params = {"limit": _PAGE, **_chosen(selector, fields)}
        items: list[JsonObject] = []
        while True:
            path = resource.path(namespace)
            request = Request(method="GET", path=path, call=call, params=params, patience=patience)
            try:
                page = _json(await self._http.checked(request))
            except WatchExpired:  # the continue token outlived etcd's history: once more, in one piece
                items, params = [], {key: value for key, value in params.items() if key not in ("limit", "continue")}
                continue
            items += page.get("items") or ()
            following = page["metadata"].get("continue")
            if not following:
                return Listing(items=items, version=page["metadata"].get("resourceVersion", ""))
            params = {**params, "continue": following}

    async def create(
        self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None, *, dry_run: bool = False
    ) -> JsonObject:
        """Create strictly: an unknown or repeated field is refused and named. Raises Conflict when the name exists.

        After an ambiguous failure the create is sent again, so Conflict may also mean "the first one arrived".
        A dry run passes all of admission and stores nothing.
        """
        params = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        name = (body.get("metadata") or {}).get("name")
        call = self._call("create", resource, namespace, name)
        return await self._write("POST", resource.path(namespace), call, body, params)

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any], namespace: str | None = None
    ) -> JsonObject:
        """JSON merge patch; ``metadata.uid`` or ``metadata.resourceVersion`` in it are preconditions."""
        call = self._call("patch", resource, namespace, name)
        return await self._write("PATCH", resource.path(namespace, name), call, body, {"fieldValidation": "Strict"})

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete that very object. False when it is gone already; raises Conflict when another UID bears the name."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        request = Request(
            method="DELETE",
            path=resource.path(namespace, name),
            call=self._call("delete", resource, namespace, name),
            headers={"Content-Type": "application/json"},
            body=json.dumps(body).encode(),
        )
        return (await self._http.checked(request, 404)).status != 404

    async def may(self, verb: str, resource: Resource, namespace: str | None, subresource: str = "") -> bool:
        """Ask the API server whether these credentials may do that (SelfSubjectAccessReview)."""
        asked = {"verb": verb, "group": resource.group, "resource": resource.plural}
        asked |= {"namespace": namespace} if namespace and resource.namespaced else {}
        asked |= {"subresource": subresource} if subresource else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        answer = await self._write("POST", ACCESS_REVIEWS.path(), self._call("create", ACCESS_REVIEWS, None), body, {})
        return bool(answer.get("status", {}).get("allowed"))

    async def serves(self, resource: Resource) -> bool:
        """Whether the API server knows that kind (a CRD may be missing)."""
        path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        call = Call(verb="get", resource=path, server=self.server)
        answer = await self._http.checked(Request(method="GET", path=path, call=call), 404)
        known = () if answer.status == 404 else _json(answer).get("resources") or ()
        return any(item.get("name") == resource.plural for item in known)

    async def version(self) -> str:
        """The API server's version: the cheapest question to ask whether it answers at all. Asked once."""
        call = Call(verb="get", resource="/version", server=self.server)
        request = Request(method="GET", path="/version", call=call, patience=ONCE)
        return str(_json(await self._http.checked(request)).get("gitVersion", ""))

    async def watch(
        self, resource: Resource, namespace: str | None, *, selector: str, version: str, seconds: int
    ) -> AsyncGenerator[tuple[str, JsonObject]]:
        """(type, object) as the API sends them, bookmarks included; first ("OPEN", {}) when the server has accepted.

        Ends when the server ends it. Raises WatchExpired on 410 and ApiUnreachable when the connection drops.
        """
        call = self._call("watch", resource, namespace)
        params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        request = Request(
            method="GET",
            path=resource.path(namespace),
            call=call,
            params={**params, "timeoutSeconds": str(seconds), **_chosen(selector, "")},
            patience=Patience(read=seconds + 10.0),  # the server ends it first, unless it is frozen
        )
        async with self._http.stream(request) as answer:
            yield "OPEN", {}
            async for line in _lines(answer.aiter_bytes()):
                event = _event(line, call)
                if event["type"] == "ERROR":
                    said = event["object"]
                    raise refusal(int(said.get("code") or 500), json.dumps(said).encode(), call)
                yield event["type"], event["object"]

    async def logs(
        self,
        pod: str,
        namespace: str,
        container: str,
        *,
        previous: bool = False,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> AsyncGenerator[bytes]:
        """The container's log in blocks, whole or its last lines. Raises RequestRejected when there is none."""
        params = {"container": container, "previous": "true" if previous else "false"}
        params |= {"tailLines": str(tail_lines)} if tail_lines is not None else {}
        params |= {"limitBytes": str(limit_bytes)} if limit_bytes is not None else {}
        call = self._call("get", Resource("", "v1", "pods/log"), namespace, pod)
        request = Request(
            method="GET", path=PODS.path(namespace, pod, "log"), call=call, params=params, headers={"Accept": "*/*"}
        )
        async with self._http.stream(request) as answer:
            async for block in answer.aiter_bytes():
                yield block

    async def proxy(
        self,
        target: Literal["services", "pods"],
        name: str,
        port: str | int,
        namespace: str,
        path: str,
        *,
        method: str = "GET",
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        read_seconds: float = PATIENT.read,
    ) -> Response:
        """What the service or pod behind the API server answers, any status, asked once.

        The API server's own refusals are errors: 403 is PermissionMissing, no endpoints or no such object is
        ApiUnreachable (never a 404, which would read as "the service does not know that").
        """
        base = (SERVICES if target == "services" else PODS).path(namespace, f"{name}:{port}", "proxy")
        call = self._call(_PROXY_VERBS[method], Resource("", "v1", f"{target}/proxy"), namespace, f"{name}:{port}")
        request = Request(
            method=method,
            path=f"{base}/{path.lstrip('/')}",
            call=call,
            params=params or {},
            headers=headers or {},
            body=body,
            patience=Patience(read=read_seconds),
            repeatable=False,
        )
        answer = await self._http.send(request)
        if answer.status in _MASKED_PROXY_ERRORS and status_of(answer.body):
            error = refusal(answer.status, answer.body, call)
            raise unreachable(call, error.why, answer.status) if isinstance(error, RequestRejected) else error
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _write(
        self, method: str, path: str, call: Call, body: Mapping[str, Any], params: Mapping[str, str]
    ) -> JsonObject:
        kind = "application/json" if method == "POST" else "application/merge-patch+json"
        request = Request(
            method=method,
            path=path,
            call=call,
            params=params,
            headers={"Content-Type": kind},
            body=json.dumps(body).encode(),
        )
        return _json(await self._http.checked(request))

    def _call(self, verb: str, resource: Resource, namespace: str | None, name: str | None = None) -> Call:
        scope = namespace if resource.namespaced else None
        return Call(verb=verb, resource=str(resource), server=self.server, namespace=scope, name=name)


async def _lines(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split on LF only: str.splitlines also splits on NEL, which may stand unescaped in JSON."""
    rest = b""
    async for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if line.strip():
                yield line


def _event(line: bytes, call: Call) -> JsonObject:
    try:
        event: JsonObject = json.loads(line)
    except ValueError as error:
        raise unreachable(call, f"a watch line is no JSON: {line[:80]!r}") from error
    return event


def _json(answer: Response) -> JsonObject:
    try:
        data = json.loads(answer.body)
    except ValueError as error:
        raise ApiUnreachable(
            "Not a Kubernetes API",
            why=f"the answer (HTTP {answer.status}) is no JSON: {answer.body[:80]!r}",
            next_step="check the server's URL",
        ) from error
    if not isinstance(data, dict):
        raise ApiUnreachable("Not a Kubernetes API", why=f"the answer is a {type(data).__name__}")
    return data


def _chosen(selector: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": selector, "fieldSelector": fields}
    return {key: value for key, value in chosen.items() if value}
