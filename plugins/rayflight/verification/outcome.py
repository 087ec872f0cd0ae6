"""From the matrix to a decision: which rows block, and the diagnosis of those that failed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rayflight.findings import Check, Decision, Diagnosis, Evidence, Finding, Layer
from rayflight.states import Verdict

# What a failed row asks for. A device or node that is bad is left for another; a claim that was never true fails.
DECIDED: Mapping[str, Decision] = {
    "cluster-stored-as-asked": Decision.FAIL,
    "nodes-match": Decision.FAIL,
    "same-image": Decision.FAIL,
    "head-service-ports": Decision.FAIL,
    "ray-runtime-started": Decision.FAIL,
    "head-offers-no-gpu": Decision.FAIL,
    "gpu-real": Decision.FAIL,
    "gpu-alike": Decision.FAIL,
    "gpu-uuids-unique": Decision.FAIL,
    "gpu-assigned-once": Decision.FAIL,
    "shared-memory": Decision.FAIL,
    "storage-shared": Decision.FAIL,
    "gpu-product": Decision.FAIL,
    "cuda-fits": Decision.FAIL,
    "token-required": Decision.FAIL,
    "versions-alike": Decision.FAIL,
}
_ITEMS, _LENGTH = 3, 400  # of a list in a sentence; characters of one item
_ELSEWHERE = Decision.RETRY_ELSEWHERE

# Rows that must have been seen: a training on devices that nobody saw is what verification is there to prevent.
# The rest may stay unknown where a permission is missing (nodes, services), and is said.
MUST_BE_SEEN = (
    "cluster-stored-as-asked", "head-pod-ready", "worker-pods-ready", "ray-runtime-started", "gcs-healthy",
    "ray-nodes-alive", "pod-mapped-to-ray-node", "head-offers-no-gpu", "token-required", "gpu-count", "gpu-real",
    "gpu-uuids-unique", "gpu-assigned-once",
)  # fmt: skip


def decision_of(check_id: str) -> Decision:
    """What a failed row of this id asks for."""
    return DECIDED.get(check_id, _ELSEWHERE)


def must_be_seen(check_id: str) -> bool:
    """Whether a row of this id forbids to go on when it could not be observed."""
    return check_id in MUST_BE_SEEN


def blocking(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Rows that forbid to go on: failed, or unknown where nothing may stay unseen."""
    return tuple(
        check
        for check in checks
        if check.verdict == Verdict.FAILED or (check.verdict == Verdict.UNKNOWN and must_be_seen(check.id))
    )


def failing_pods(checks: Iterable[Check], workers: Collection[str]) -> tuple[str, ...]:
    """Worker pods in whose place another one may pass. None where something failed that no other pod can mend."""
    blocked = blocking(checks)
    if any(check.verdict == Verdict.FAILED and decision_of(check.id) is not _ELSEWHERE for check in blocked):
        return ()
    return tuple(dict.fromkeys(str(it.facts["pod"]) for it in blocked if it.facts.get("pod") in workers))


def bad_nodes(checks: Iterable[Check]) -> tuple[str, ...]:
    """Kubernetes nodes that rows blame which ask for another place."""
    blamed = (it for it in checks if it.verdict == Verdict.FAILED and decision_of(it.id) is _ELSEWHERE)
    return tuple(dict.fromkeys(str(it.facts["node"]) for it in blamed if it.facts.get("node")))


def diagnosis_from_checks(checks: Iterable[Check]) -> Diagnosis:
    """The lowest level that blocks is the cause; what blocks above it follows from it."""
    every = tuple(checks)
    unseen = tuple(f"{it.subject}: {it.id}: {it.evidence}" for it in every if it.verdict == Verdict.UNKNOWN)
    blocked = sorted(blocking(every), key=lambda check: (check.verdict == Verdict.UNKNOWN, check.level))
    if not blocked:
        return Diagnosis(verdict="healthy", gaps=unseen)
    cause = _finding(blocked[0], every)
    rest = tuple(_finding(check, every, cause) for check in blocked[1:])
    return Diagnosis(verdict="cause", cause=cause, consequences=rest, gaps=unseen)


def _finding(check: Check, every: tuple[Check, ...], cause: Finding | None = None) -> Finding:
    unseen = check.verdict == Verdict.UNKNOWN
    evidence = brief(check.evidence)
    seen = f"{brief(check.observed)} ({evidence})" if evidence else brief(check.observed)
    pod, node = check.facts.get("pod"), check.facts.get("node")
    return Finding(
        id=f"verification-{check.id}",
        title=f"Verification level {check.level} {'could not see' if unseen else 'failed'}: {check.id}",
        layer=Layer.KUBERNETES if check.level in (1, 3) else Layer.RAY,
        summary=f"{check.subject}: expected {check.expected}; observed {seen}{_also(check, every)}",
        next_step=check.next_step or "see the verification matrix",
        decision=_ELSEWHERE if unseen else decision_of(check.id),
        objects=tuple(name for name in (f"pod/{pod}" if pod else "", f"node/{node}" if node else "") if name),
        evidence=(Evidence(object=check.subject, text=seen),),
        consequence_of=(cause.id,) if cause and cause.id != f"verification-{check.id}" else (),
    )


def _also(check: Check, every: tuple[Check, ...]) -> str:
    """How many of the same question went wrong: one of eight is a device, eight of eight is an image."""
    same = [it for it in every if it.id == check.id and it.verdict != Verdict.NOT_APPLICABLE]
    bad = [it for it in same if it.verdict == check.verdict]
    return f" [{len(bad)} of {len(same)}]" if len(same) > 1 else ""


def brief(text: str) -> str:
    """The first items of a list in words, and how many more there are: the matrix in the archive has all of them."""
    items = text.split("; ")
    kept, rest = items[:_ITEMS], len(items) - _ITEMS
    kept = [item if len(item) <= _LENGTH else f"{item[:_LENGTH].rstrip()} ..." for item in kept]
    return "; ".join([*kept, *([f"and {rest} more in verification.json"] if rest > 0 else [])])
