"""What a diagnosis is made of: layers, decisions, evidence, findings. Data only: no rules, no I/O.

The lowest layer of all, so that errors can carry a diagnosis without knowing how it was reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Layer(StrEnum):
    """The layer in which a cause sits: who has to act."""

    KUBERNETES = "kubernetes"  # API server, scheduler, kubelet, nodes, devices, queues
    KUBERAY = "kuberay"  # the operator and its CRDs
    RAY = "ray"  # Ray's own processes and its scheduling
    USER = "user"  # what was asked for: spec, image, code
    AIRFLOW = "airflow"  # whoever flies it


class Decision(StrEnum):
    """What Airflow should do with a cause."""

    FAIL = "fail"  # a retry cannot mend it: input, image, code
    RETRY_AFTER = "retry_after"  # capacity or an outage: release what is held, come back later
    RETRY_ELSEWHERE = "retry_elsewhere"  # this node or device is bad: a new cluster, not this one
    WAIT = "wait"  # it may heal while we wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One quoted fact: which object said what, when (RFC 3339 UTC or None where the source has no time)."""

    object: str
    text: str
    at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's answer.

    ``id`` is stable and in words (``image-not-found``); ``summary`` is one sentence that names the objects and numbers;
    ``next_step`` says what a person does about it; ``retry_after`` is in seconds and only set with ``RETRY_AFTER``.
    """

    id: str
    title: str
    layer: Layer
    summary: str
    next_step: str
    decision: Decision
    objects: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    since: str | None = None
    consequence_of: tuple[str, ...] = ()
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One cause (or None: unknown or healthy), what follows from it, and what could not be read."""

    verdict: str  # "healthy" | "cause" | "unknown"
    cause: Finding | None = None
    consequences: tuple[Finding, ...] = ()
    gaps: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The paragraph that a failing task shows: one, whatever lines are quoted in it."""
        if self.cause is None:
            seen = "; ".join(self.facts) or "nothing unusual was seen"
            return _paragraph(f"The cause is unknown: {seen}.")
        cause = self.cause
        return _paragraph(f"[{cause.layer}] {_ended(cause.summary)} Next: {_ended(cause.next_step)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data for XCom, events and the archive."""
        return {key: _plain(value) for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Diagnosis:
        """The inverse of ``to_dict``."""
        cause = data.get("cause")
        return cls(
            verdict=data["verdict"],
            cause=_finding(cause) if cause else None,
            consequences=tuple(_finding(item) for item in data.get("consequences", ())),
            gaps=tuple(data.get("gaps", ())),
            facts=tuple(data.get("facts", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row of the verification matrix."""

    id: str  # stable, in words: "worker-pods-ready"
    level: int  # 1 Kubernetes objects, 2 Ray cluster state, 3 GPU resources, 4 job submission
    subject: str  # "pod rf-x-gpu-worker-abcde on node gpu-1"
    expected: str
    observed: str
    verdict: str  # states.Verdict
    evidence: str = ""
    next_step: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def _plain(value: Any) -> Any:
    """XCom would keep a tuple as a tuple and an enum as an enum, and every other reader of them stumble."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _paragraph(text: str) -> str:
    return " ".join(text.split())


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _finding(data: Mapping[str, Any]) -> Finding:
    plain = dict(data)
    plain["layer"] = Layer(plain["layer"])
    plain["decision"] = Decision(plain["decision"])
    plain["evidence"] = tuple(Evidence(**item) for item in plain.get("evidence", ()))
    for key in ("objects", "consequence_of"):
        plain[key] = tuple(plain.get(key, ()))
    return Finding(**plain)
