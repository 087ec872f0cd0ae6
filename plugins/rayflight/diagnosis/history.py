"""What happened once and has healed: it explains nothing of now. Pure."""

from __future__ import annotations

from rayflight.diagnosis.case import Case
from rayflight.findings import Finding
from rayflight.snapshot.readiness import readiness
from rayflight.snapshot.times import earlier

_HEALED = 600.0  # seconds that an empty cluster has been well again; sooner, it may come back
_LONG_AGO = 6 * 3600.0  # seconds; where Ray cannot be asked, and pods have been well for so long
_SLACK = 5.0  # seconds: Kubernetes' times are whole seconds, and its nodes' clocks are not Ray's


def over(case: Case, finding: Finding) -> bool:
    """Whether all is well now, and whatever runs (or ran last) began after it; with nothing run, after some minutes."""
    if finding.since is None:
        return False
    if case.now.ray is None or not case.can_see("ray.jobs"):
        return case.lasts(finding.since, _LONG_AGO) and _pods_well(case)
    if readiness(case.staying).waiting_for:
        return False
    jobs = [item for item in case.now.ray.jobs if not item.status.ended] or ([case.job] if case.job else [])
    if jobs:
        return all((earlier(item.started_at, _SLACK) or "") > finding.since for item in jobs)
    return not case.flying and case.lasts(finding.since, _HEALED)


def _pods_well(case: Case) -> bool:
    """As far as Kubernetes knows: without Ray nobody can say what ran meanwhile."""
    main = [item for pod in case.pods for item in pod.containers if not item.init]
    return bool(main) and all(item.ready for item in main) and not case.missing_pods()
