"""What a refusal of the dashboard, or of the API server's proxy before it, means. Pure: reads answers, sends nothing.

Two servers answer on one path. The API server's own refusals are JSON of ``kind: Status``; Ray's are plain text. They
are told apart here, once: a Service that is missing (the API server's 404) must never read as "Ray has no such job".
"""

from __future__ import annotations

from typing import Any

from rayflight.errors import ApiError, ApiUnreachable, PermissionMissing, RequestRejected, TokenRefused
from rayflight.rayjobs.transport import Response

_LONGEST_REASON = 500


def kube_status(response: Response) -> dict[str, Any] | None:
    """The API server's own Status object, or None when the answer is Ray's."""
    if not response.body.lstrip().startswith(b"{"):
        return None
    try:
        data = response.json()
    except ValueError:
        return None
    return data if isinstance(data, dict) and data.get("kind") == "Status" and "apiVersion" in data else None


def reason(response: Response) -> str:
    """The one line that says why: a Status message, or the last line of Ray's text (often a traceback)."""
    status = kube_status(response)
    if status is not None:
        return str(status.get("message") or status.get("reason") or "no reason given")[:_LONGEST_REASON]
    lines = [line.strip() for line in response.text.splitlines() if line.strip()]
    return lines[-1][-_LONGEST_REASON:] if lines else f"HTTP {response.status} without a text"


def refusal(response: Response, what: str, which: str) -> ApiError:
    """The exception for an answer that is no success."""
    error = _kube_refusal(response, what, which) if kube_status(response) else _ray_refusal(response, what, which)
    error.status = response.status
    return error


def _kube_refusal(response: Response, what: str, which: str) -> ApiError:
    why = f"the Kubernetes API server answered {response.status}: {reason(response)}"
    match response.status:
        case 401:
            return TokenRefused(what, which=which, why=why, next_step="renew the credentials of the connection")
        case 403:
            step = "grant get, create and update on services/proxy, and get on pods/proxy, in that namespace"
            return PermissionMissing(what, which=which, why=why, next_step=step)
        case status if status in (404, 429) or status >= 500:
            step = "see whether the head pod is Ready and the head service has endpoints"
            return ApiUnreachable(what, which=which, why=why, next_step=step)
    return RequestRejected(what, which=which, why=why)


def _ray_refusal(response: Response, what: str, which: str) -> ApiError:
    why = f"Ray answered {response.status}: {reason(response)}"
    if response.status == 401 or (response.status == 403 and "token" in response.text.lower()):
        step = "hand over the token that this cluster was started with (RAY_AUTH_TOKEN)"
        return TokenRefused(what, which=which, why=why, next_step=step)
    if response.status == 403:
        return PermissionMissing(what, which=which, why=why)
    if response.status == 429 or response.status >= 500:
        step = "look at the head pod; the submission itself may be well"
        return ApiUnreachable(what, which=which, why=why, next_step=step)
    return RequestRejected(what, which=which, why=why, next_step="correct what the reason names")
