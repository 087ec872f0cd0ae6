"""From an answer of the Kubernetes API that is not a success to one error of the tree. Pure: no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rayflight.errors import ApiError, ApiUnreachable, Conflict, PermissionMissing, RequestRejected, TokenRefused

_RBAC = re.compile(r'^(?:\S+ (?:"[^"]*" )?is )?forbidden: User "(?P<user>[^"]*)" cannot ')

_WEBHOOK = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
_KUEUES = ("mraycluster.kb.io", "vraycluster.kb.io", "mrayjob.kb.io", "vrayjob.kb.io")  # as its manifests name them


class WatchExpired(ApiError):
    """410: that resourceVersion is too old. Never leaves the kube package: the cure is a new list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What was asked: for the sentences of errors."""

    verb: str
    resource: str
    server: str
    namespace: str | None = None
    name: str | None = None

    @property
    def object(self) -> str:
        """``rayclusters.ray.io "x" in namespace "team-a"``."""
        named = f'{self.resource} "{self.name}"' if self.name else self.resource
        return f'{named} in namespace "{self.namespace}"' if self.namespace else named


def status_of(body: bytes) -> Mapping[str, Any] | None:
    """The API server's own ``kind: Status``, or None: then the body is somebody else's (a proxied service)."""
    if not body.lstrip().startswith(b"{"):
        return None
    try:
        data = json.loads(body)
    except ValueError:
        return None
    if isinstance(data, dict) and data.get("kind") == "Status" and data.get("apiVersion") == "v1":
        return data
    return None


def refusal(status: int, body: bytes, call: Call) -> ApiError:
    """The error for that answer; carries the HTTP status and the API's own words."""
    said = status_of(body) or {}
    message = str(said.get("message") or body[:500].decode(errors="replace").strip() or f"HTTP {status}")
    error = _classify(status, str(said.get("reason", "")), message, call)
    error.status = status
    return error


def unreachable(call: Call, why: str, status: int | None = None) -> ApiUnreachable:
    """No usable answer: says nothing about the object itself."""
    if call.resource.endswith("/proxy") and status is not None:
        return _behind(call, why, status)
    hook = _WEBHOOK.search(why)
    step = "check that the API server is up and reachable from here"
    if hook is not None:
        owner = " (Kueue's: its controller manager)" if hook["name"] in _KUEUES else ""
        step = (
            f"have whoever runs webhook {hook['name']}{owner} look after it; nothing is created here until it answers"
        )
    elif "CERTIFICATE_VERIFY_FAILED" in why:
        step = "correct the certificate authority in the connection's kubeconfig"
    error = ApiUnreachable(
        "The Kubernetes API could not ask a webhook" if hook else "The Kubernetes API did not answer",
        which=f"at {call.server} ({call.verb} {call.object})",
        why=why,
        next_step=step,
    )
    error.status = status
    return error


def _behind(call: Call, why: str, status: int) -> ApiUnreachable:
    """The API server answered, but not the service or pod that it passed the request on to."""
    error = ApiUnreachable(
        "No answer from behind the Kubernetes API",
        which=f"({call.verb} {call.object} at {call.server})",
        why=why,
        next_step="see the state and events of that pod: it starts, is overloaded, or was lost",
    )
    error.status = status
    return error


def _classify(status: int, reason: str, message: str, call: Call) -> ApiError:
    if status == 401:
        return TokenRefused(
            "The Kubernetes API refused the credentials",
            which=f"at {call.server}",
            why=message,
            next_step="renew the token or certificate of the connection",
        )
    if status == 403:
        return _forbidden(message, call)
    if status == 409:
        return Conflict(f"Cannot {call.verb}", which=call.object, why=message)
    if status == 410 or reason == "Expired":
        return WatchExpired(f"Cannot {call.verb}", which=call.object, why=message)
    if status == 429 or status >= 500:
        return unreachable(call, f"HTTP {status}: {message}", status)
    return RequestRejected("The Kubernetes API rejected", which=f"{call.verb} {call.object}", why=message)


def _forbidden(message: str, call: Call) -> ApiError:
    """403 is said for missing permissions, and by admission (quota, Pod Security, a namespace that is going away)."""
    found = _RBAC.match(message)
    if found is None:
        return RequestRejected("The Kubernetes API rejected", which=f"{call.verb} {call.object}", why=message)
    nobody = found["user"] == "system:anonymous"
    return PermissionMissing(
        f"No permission to {call.verb}",
        which=call.object,
        why=message,
        next_step="give the connection's kubeconfig a user: it came without credentials"
        if nobody
        else f"allow user {found['user']} to {call.verb} {call.resource} (a Role and a RoleBinding)",
    )
