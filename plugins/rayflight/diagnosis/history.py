"""What happened once and has healed: it explains nothing of now. Pure."""

from __future__ import annotations

from rayflight.diagnosis.case import Case
from rayflight.findings import Finding
from rayflight.snapshot.readiness import readiness
from rayflight.snapshot.times import earlier

_HEALED = 600.0  # seconds that an empty cluster has been well again; sooner, it may come back
_SLACK = 5.0  # seconds: Kubernetes' times are whole seconds, and its nodes' clocks are not Ray's


def over(case: Case, finding: Finding) -> bool:
    """Whether all is well now, and whatever runs (or ran last) began after it; with nothing run, after some minutes."""
    if finding.since is None or case.now.ray is None or readiness(case.now).waiting_for:
        return False
    jobs = [item for item in case.now.ray.jobs if not item.status.ended] or ([case.job] if case.job else [])
    if jobs:
        return all((earlier(item.started_at, _SLACK) or "") > finding.since for item in jobs)
    return not case.flying and case.can_see("ray.jobs") and case.lasts(finding.since, _HEALED)
