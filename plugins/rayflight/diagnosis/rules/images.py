"""Images that cannot be pulled. Read in init containers too: KubeRay's ``wait-gcs-ready`` uses the worker's image."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.findings import Decision, Finding, Layer
from rayflight.snapshot.model import Container, Event, Pod

_WAITING = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
    "SignatureValidationFailed",
)
_ENOUGH = 3  # failed pulls after which an unreachable registry is no hiccup: the kubelet tries after 0, 10 and 30 s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    id: str
    title: str
    pattern: str
    next_step: str
    decision: Decision = Decision.FAIL
    heals: bool = False  # may come right by itself: waited for until the kubelet has failed often enough


# The first that matches the runtime's words decides.
_KINDS = (
    _Kind(
        id="image-name-invalid",
        title="The image's name is not valid",
        pattern=r"InvalidImageName|invalid reference format",
        next_step="correct the image's name in the spec",
    ),
    _Kind(
        id="image-never-pulled",
        title="The image is not on the node and may not be pulled",
        pattern=r"ErrImageNeverPull",
        next_step="load the image on the node or change imagePullPolicy Never",
    ),
    _Kind(
        id="image-rate-limited",
        title="The registry limits the rate of pulls",
        pattern=r"toomanyrequests|429 Too Many",
        decision=Decision.RETRY_AFTER,
        next_step="pull through a mirror or log in; the limit passes with time",
    ),
    _Kind(
        id="image-wrong-platform",
        title="The image does not exist for the node's platform",
        pattern=r"no match for platform|no matching manifest",
        next_step="build the image for the node's architecture",
    ),
    _Kind(
        id="image-unauthorized",
        title="The registry refuses the image",
        pattern=r"unauthorized|authentication required|authorization failed|access denied|insufficient_scope|40[13]",
        next_step="check the image's name and the imagePullSecrets of the pod's namespace",
    ),
    _Kind(
        id="image-not-found",
        title="The image does not exist",
        pattern=r"not found|manifest unknown|name unknown|does not exist",
        next_step="correct the image's name or tag, or push it",
    ),
    _Kind(
        id="image-registry-unknown",
        title="The registry's name does not resolve",
        pattern=r"no such host",
        next_step="correct the registry in the image's name; if it is right, check DNS on the node",
    ),
    _Kind(
        id="image-registry-untrusted",
        title="The registry's certificate is not trusted",
        pattern=r"x509|certificate",
        next_step="install the registry's certificate authority on the nodes",
    ),
    _Kind(
        id="image-registry-unreachable",
        title="The registry cannot be reached",
        pattern=r"dial tcp|connection refused|timeout|deadline exceeded|connection reset|EOF|50[0234]|TLS handshake",
        decision=Decision.RETRY_AFTER,
        heals=True,
        next_step="check the registry and the node's way to it",
    ),
    _Kind(
        id="image-pull-failing",
        title="The image cannot be pulled",
        pattern=r"",
        decision=Decision.RETRY_AFTER,
        heals=True,
        next_step="read the container runtime's words",
    ),
)


def _check(case: Case) -> Iterable[Finding]:
    waiting: dict[str, list[tuple[Pod, Container]]] = {}
    for pod in case.pods:
        for item in pod.containers:
            if item.state == "waiting" and item.reason in _WAITING:
                waiting.setdefault(item.image, []).append((pod, item))
    return [_finding(case, image, found) for image, found in waiting.items()]


def _finding(case: Case, image: str, found: list[tuple[Pod, Container]]) -> Finding:
    pods = list({pod.uid: pod for pod, _ in found}.values())
    failures = [item for pod in pods for item in case.events("Failed", about=pod) if "pull image" in item.message]
    words = " ".join([f"{item.reason} {item.message}" for _, item in found] + [item.message for item in failures])
    # The image's own name may hold any word ("not-found:403"): only what is said about it counts.
    kind = next(kind for kind in _KINDS if re.search(kind.pattern, words.replace(image, ""), re.IGNORECASE))
    tries = max((sum(item.count for item in failures if item.uid == pod.uid) for pod in pods), default=0)
    decision = Decision.WAIT if kind.heals and tries < _ENOUGH else kind.decision
    evidence = (quoting.container(*found[0]), *(quoting.event(item) for item in failures[:1]))
    where = "init container" if found[0][1].init else "container"
    return Finding(
        id=kind.id,
        title=kind.title,
        layer=Layer.KUBERNETES,
        summary=(
            f"{kind.title}: image {image} of {where} {found[0][1].name} in {quoting.pods_named(pods)} "
            f"cannot be pulled: {quoting.clip(_said(found[0][1], failures), 300)}"
        ),
        next_step=kind.next_step,
        decision=decision,
        objects=(*quoting.objects(pods), f"image/{image}"),
        evidence=evidence,
        since=quoting.earliest(evidence),
        retry_after=300.0 if decision is Decision.RETRY_AFTER else None,
    )


def _said(item: Container, failures: Sequence[Event]) -> str:
    """The runtime's own words: the event has them when the state only says that it backs off."""
    backs_off = item.message.startswith("Back-off") and "ErrImagePull:" not in item.message
    return failures[-1].message if failures and (backs_off or not item.message) else item.message or item.reason


RULES = (Rule(ids=tuple(kind.id for kind in _KINDS), depth=Depth.NODE, check=_check),)
