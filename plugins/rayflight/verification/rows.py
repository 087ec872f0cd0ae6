"""How a row of the verification matrix is made. Data only; decides nothing but the verdict of a yes or no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rayflight.findings import Check
from rayflight.snapshot.model import Gap, Pod
from rayflight.states import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a check is about, before anything was observed."""

    id: str
    level: int
    subject: str
    expected: str
    next_step: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def judged(self, passed: bool, observed: str, evidence: str = "") -> Check:  # noqa: FBT001 - the verdict itself
        """Observed, and right or wrong."""
        return self.passed(observed, evidence) if passed else self.failed(observed, evidence)

    def passed(self, observed: str, evidence: str = "") -> Check:
        """Observed, and right."""
        return self._check(Verdict.PASSED, observed, evidence)

    def failed(self, observed: str, evidence: str = "") -> Check:
        """Observed, and wrong."""
        return self._check(Verdict.FAILED, observed, evidence, next_step=self.next_step)

    def warned(self, observed: str, evidence: str = "") -> Check:
        """Observed, and worth a look; forbids nothing."""
        return self._check(Verdict.WARNED, observed, evidence, next_step=self.next_step)

    def unknown(self, why: str, next_step: str = "") -> Check:
        """Could not be observed."""
        return self._check(Verdict.UNKNOWN, "could not be observed", why, next_step=next_step)

    def gap(self, gap: Gap) -> Check:
        """Could not be observed, as the snapshot says."""
        return self.unknown(f"{gap.source}: {gap.why}", next_step=f"make {gap.source} readable")

    def not_applicable(self, why: str) -> Check:
        """Has no meaning here."""
        return self._check(Verdict.NOT_APPLICABLE, why, "")

    def _check(self, verdict: Verdict, observed: str, evidence: str, next_step: str = "") -> Check:
        return Check(
            id=self.id,
            level=self.level,
            subject=self.subject,
            expected=self.expected,
            observed=observed,
            verdict=verdict,
            evidence=evidence,
            next_step=next_step,
            facts=dict(self.facts),
        )


def pod_named(pod: Pod) -> str:
    """A pod and where it runs."""
    return f"pod {pod.name} on node {pod.node}" if pod.node else f"pod {pod.name}"


def counted(amount: float, noun: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{amount:g} {noun}{'' if amount == 1 else 's'}"


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / 2**30:.3g} GiB"
