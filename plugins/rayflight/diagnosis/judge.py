"""From findings to one diagnosis: the earliest deepest finding is the cause, the rest follow from it or stand aside.

Knows depths, layers and times; knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress

from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.catalogue import RULES
from rayflight.diagnosis.history import over
from rayflight.diagnosis.quoting import plain
from rayflight.diagnosis.seen import facts as seen_facts
from rayflight.findings import Decision, Diagnosis, Finding, Layer
from rayflight.snapshot.model import Job, Snapshot
from rayflight.snapshot.times import earlier

_SLACK = 5.0  # seconds: Kubernetes' times are whole seconds, and its nodes' clocks are not Ray's
_OF_PLACE = (Depth.NODE, Depth.ADMISSION, Depth.SCHEDULING)

Deep = tuple[Depth, Finding]


def diagnose(
    snapshot: Snapshot,
    *,
    previous: Snapshot | None = None,
    session: str | None = None,
    submission: str | None = None,
    log_tail: Sequence[str] = (),
    rules: Sequence[Rule] = RULES,
    history: Sequence[Snapshot] = (),
) -> Diagnosis:
    """Judge one snapshot. ``previous`` is an earlier one; ``session`` and ``submission`` were noted at submit.

    ``log_tail`` are the last lines of the submission's driver log. ``history`` are earlier moments, oldest first: what
    they saw and what has vanished since still counts, unless all is well now.
    """
    readable = plain(_with_log(snapshot, submission, log_tail))
    history = [plain(then) for then in history]
    case = Case(now=readable, before=previous, session=session, submission=submission)
    found = _found(case, rules)
    found += _vanished(case, found, history, rules)
    symptoms = {name for rule in rules if rule.symptom for name in rule.ids}
    causes = [pair for pair in found if pair[1].id not in symptoms]
    linked = [replace(finding, consequence_of=_causes(depth, finding, causes, case)) for depth, finding in found]
    kept = [item.id not in symptoms or bool(item.consequence_of) for item in linked]
    found, linked = list(compress(found, kept)), list(compress(linked, kept))
    ranked = sorted(zip(found, linked, strict=True), key=lambda pair: _rank(pair[0][0], pair[1]))
    gaps = tuple(f"{gap.source}: {gap.why}" for gap in readable.gaps)
    facts = seen_facts(case)
    if not ranked:
        return Diagnosis(verdict="unknown" if facts else "healthy", gaps=gaps, facts=facts)
    findings = [finding for _, finding in ranked]
    return Diagnosis(verdict="cause", cause=findings[0], consequences=tuple(findings[1:]), gaps=gaps, facts=facts)


def _with_log(snapshot: Snapshot, submission: str | None, lines: Sequence[str]) -> Snapshot:
    if submission is None or not lines:
        return snapshot
    return replace(snapshot, logs={**snapshot.logs, f"driver/{submission}": "\n".join(lines)})


def _found(case: Case, rules: Sequence[Rule]) -> list[Deep]:
    """All findings. While the noted job runs, a fault of Kubernetes ends it only if the job is stuck for it."""
    told = ((rule, finding) for rule in rules for finding in rule.check(case))
    found = [(rule, finding) for rule, finding in told if not (rule.past and over(case, finding))]
    job = case.job if case.submission is not None else None
    stuck = any(rule.depth is Depth.JOB for rule, _ in found)
    if job is None or job.status.ended or stuck:
        return [(rule.depth, finding) for rule, finding in found]
    return [(rule.depth, finding if rule.ends_jobs else _waited(finding)) for rule, finding in found]


def _vanished(case: Case, found: Sequence[Deep], history: Sequence[Snapshot], rules: Sequence[Rule]) -> list[Deep]:
    """What earlier moments prove of pods and places, and what is not to be seen any more (a Failed pod, an event).

    Nothing when all is well now: what healed is no cause. Nothing of another cluster of that name.
    """
    if not found and not seen_facts(case):
        return []
    uid = case.now.cluster.uid if case.now.cluster else None
    seen = {finding.id for _, finding in found}
    kept: list[Deep] = []
    for number, then in reversed(list(enumerate(history))):
        if then.cluster is None or (uid is not None and then.cluster.uid != uid):
            continue
        earlier_case = Case(now=then, before=history[0] if number else None, session=case.session)
        for depth, finding in _found(earlier_case, rules):
            if depth <= Depth.CONTAINER and finding.decision is not Decision.WAIT and finding.id not in seen:
                seen.add(finding.id)
                kept.append((depth, replace(finding, summary=f"{finding.summary} (seen at {then.taken_at})")))
    return kept


def _waited(finding: Finding) -> Finding:
    return replace(finding, decision=Decision.WAIT, retry_after=None)


def decisive(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """What ends a wait now: findings that cannot heal, and do not merely follow from something that is waited for."""
    every = findings(diagnosis)
    waited = {item.id for item in every if item.decision is Decision.WAIT}
    return tuple(
        item for item in every if item.decision is not Decision.WAIT and not waited.intersection(item.consequence_of)
    )


def findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Cause and consequences together."""
    return ((diagnosis.cause,) if diagnosis.cause else ()) + diagnosis.consequences


def _rank(depth: Depth, finding: Finding) -> tuple[bool, bool, int, str]:
    """No consequence before a root, no wait before what ends it; then the deeper, then the earlier."""
    return bool(finding.consequence_of), finding.decision is Decision.WAIT, int(depth), finding.since or "~"


def _causes(depth: Depth, finding: Finding, found: Iterable[Deep], case: Case) -> tuple[str, ...]:
    ids = (other.id for deeper, other in found if deeper < depth and _explains(deeper, other, depth, finding, case))
    return tuple(dict.fromkeys(ids))


def _explains(depth: Depth, cause: Finding, effect_depth: Depth, effect: Finding, case: Case) -> bool:
    """A shared object explains; and a fault below Ray during the job explains what Ray and the user's code say."""
    if set(cause.objects) & set(effect.objects) and _not_after(cause, effect.since):
        return True
    if cause.layer is Layer.RAY or effect.layer not in (Layer.RAY, Layer.USER, Layer.AIRFLOW):
        return False
    if depth > Depth.CONTAINER or (effect_depth <= Depth.CONTAINER and effect.layer is not Layer.RAY):
        return False
    # A job that still waits is explained by whatever keeps pods away, whenever that began.
    waits = case.job is not None and not case.job.status.ended
    return _during(cause, case.job, effect) or (depth in _OF_PLACE and waits)


def _not_after(cause: Finding, moment: str | None) -> bool:
    return not cause.since or not moment or (earlier(cause.since, _SLACK) or "") <= moment


def _during(cause: Finding, job: Job | None, effect: Finding) -> bool:
    """It began while the job ran. What was wrong before and did not keep the job from running did not end it."""
    if cause.since is None or not _not_after(cause, effect.since):
        return False
    began = earlier(job.started_at, _SLACK) if job else None
    return began is None or cause.since >= began
