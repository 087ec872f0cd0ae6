"""What happened once and has healed: it explains nothing of now. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rayflight.diagnosis.case import Case
from rayflight.findings import Finding
from rayflight.snapshot.model import Pod
from rayflight.snapshot.readiness import map_pods, readiness
from rayflight.snapshot.times import earlier

_HEALED = 600.0  # seconds that an empty cluster has been well again; sooner, it may come back
_LONG_AGO = 6 * 3600.0  # seconds; where Ray cannot be asked, and pods have been well for so long
_SLACK = 5.0  # seconds: Kubernetes' times are whole seconds, and its nodes' clocks are not Ray's


def over(case: Case, finding: Finding) -> bool:
    """Whether its pods are well, and whatever runs (or ran last) began after it; with nothing run, all for minutes."""
    if finding.since is None:
        return False
    if case.now.ray is None or not case.can_see("ray.jobs"):
        # Without Ray nobody can say what ran meanwhile.
        return case.lasts(finding.since, _LONG_AGO) and not case.missing_pods() and _well(case.pods)
    jobs = [item for item in case.now.ray.jobs if not item.status.ended] or ([case.job] if case.job else [])
    if jobs:
        began_later = all((earlier(item.started_at, _SLACK) or "") > finding.since for item in jobs)
        return began_later and _recovered(case, finding)
    return not case.flying and case.lasts(finding.since, _HEALED) and not readiness(case.staying).waiting_for


def _recovered(case: Case, finding: Finding) -> bool:
    """Its pods run and are Ray nodes again; what lies Failed beside as many as are desired is only left over."""
    spare = {pod.uid for pod in case.now.pods} - {pod.uid for pod in case.staying.pods}
    pods = [pod for pod in case.now.pods if f"pod/{pod.name}" in finding.objects]
    known = map_pods(case.now).candidates
    joined = not case.can_see("ray.nodes") or all(known.get(pod.name) for pod in pods if pod.uid not in spare)
    leaving = any(pod.deleting_since for pod in pods)
    return joined and not leaving and _well(pod for pod in pods if pod.uid not in spare)


def _well(pods: Iterable[Pod]) -> bool:
    """As far as Kubernetes knows."""
    return all(pod.phase == "Running" and all(item.ready for item in pod.containers if not item.init) for pod in pods)
