"""From (spec, snapshot, probe) to checks. Pure: no I/O, no clock; what could not be seen is unknown, never passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rayflight.findings import Check
from rayflight.snapshot.model import Snapshot
from rayflight.specs import ClusterSpec
from rayflight.states import Verdict
from rayflight.verification.gpu_resources import level3
from rayflight.verification.job_submission import level4
from rayflight.verification.kubernetes_objects import level1
from rayflight.verification.outcome import bad_nodes, blocking, diagnosis_from_checks, failing_pods
from rayflight.verification.probed import Probed
from rayflight.verification.ray_state import level2
from rayflight.verification.watching import fallen

__all__ = [
    "bad_nodes",
    "blocking",
    "diagnosis_from_checks",
    "failing_pods",
    "fallen",
    "level1",
    "level2",
    "level3",
    "level4",
    "verify_all",
]


def verify_all(
    spec: ClusterSpec,
    snapshot: Snapshot,
    result: Mapping[str, Any] | None,
    *,
    probe_log: str = "",
    earlier: Mapping[str, Any] | None = None,
) -> tuple[Check, ...]:
    """All four verifications, in their order. ``result`` is what the probe printed, None when it gave none.

    ``earlier`` is what GPUs and products measured before (``fleet.earlier``), where that is known.
    """
    probed = Probed.read(result, snapshot) if result is not None else None
    checks = (
        *level1(spec, snapshot),
        *level2(spec, snapshot),
        *level3(spec, snapshot, probed or Probed({})),
        *level4(spec, probed, probe_log, earlier or {}),
    )
    return tuple(_strictly(check) for check in checks) if spec.verification.strict else checks


def _strictly(check: Check) -> Check:
    """What was not checked fails, and still says that it was not checked."""
    if check.verdict != Verdict.UNKNOWN:
        return check
    why = f"{check.evidence} (strict: what was not checked fails)".strip()
    return replace(check, verdict=Verdict.FAILED, evidence=why)
