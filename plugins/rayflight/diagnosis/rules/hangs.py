"""A training that stays RUNNING while nothing moves: who stands where, by two samples of all stacks.

Speaks only of a silence that was looked into (``Snapshot.hang``). What moves is slow, not stuck.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.diagnosis.standing import Standing, activity, joint, last, named, quoted, ranks, standing, where
from rayflight.findings import Decision, Evidence, Finding
from rayflight.snapshot.hang import Hang, TrainingProcess
from rayflight.states import JobStatus

_DECISIONS = {"fail": Decision.FAIL, "retry": Decision.RETRY_ELSEWHERE}
_STATES = {"D": "in the kernel (state D)", "Z": "dead and not yet collected (state Z)"}
_SHOWN = 3  # outliers in one sentence
_SAMPLES = 2  # slow is told from stuck by two


def _check(case: Case) -> Iterable[Finding]:
    hang, job = case.now.hang, case.job
    if hang is None or job is None or job.id != hang.submission:
        return
    if job.status is not JobStatus.RUNNING and not (hang.ended and job.status is JobStatus.STOPPED):
        return
    if len(hang.taken_at) < _SAMPLES:
        return
    found = standing(hang)
    if found.stopped:
        yield _stopped(hang, found)
    elif found.mute and (found.groups or found.moving):
        yield _mute(hang, found)
    elif found.moving:
        if found.healthy and joint(last(found.healthy[0])):
            yield _slow(hang, found)
    elif found.outliers:
        yield _apart(hang, found)
    elif found.groups and not _works(found):
        yield _still(hang, found)


def _works(found: Standing) -> bool:
    """Whether all that stand at one place may just be computing: a long step looks like that."""
    samples = [last(group[0]) for group in found.groups]
    return all(sample.busy and not joint(sample) for sample in samples)


def _stopped(hang: Hang, found: Standing) -> Finding:
    said = f"{_all(found.stopped)} {_is(found.stopped)} stopped (state T)"
    return _finding("rank-stopped", hang, found, found.stopped, said)


def _mute(hang: Hang, found: Standing) -> Finding:
    states = {sample.state for it in found.mute for sample in it.samples if sample.state}
    held = "; ".join(_STATES.get(state, f"state {state}") for state in sorted(states))
    why = held or next((sample.why for it in found.mute for sample in it.samples if sample.why), "no answer")
    said = f"{_all(found.mute)} {'gives' if len(found.mute) == 1 else 'give'} no stack ({quoting.clip(why, 150)})"
    return _finding("rank-does-not-answer", hang, found, found.mute, said)


def _slow(hang: Hang, found: Standing) -> Finding:
    said = f"{_all(found.moving)} still {'moves' if len(found.moving) == 1 else 'move'} (now {_doing(found.moving[0])})"
    return _finding("rank-slow", hang, found, found.moving, said)


def _apart(hang: Hang, found: Standing) -> Finding:
    outliers = found.outliers
    together = bool(joint(last(found.healthy[0])))
    differ = together and all(joint(last(it)) for it in outliers)
    said = f"{named(outliers[0])}: {_doing(outliers[0])}"
    for other in outliers[1:_SHOWN]:
        said += f"; {named(other)}: {_doing(other)}"
    if len(outliers) > _SHOWN:
        said += f"; and {len(outliers) - _SHOWN} more elsewhere"
    return _finding("collectives-out-of-step" if differ else "rank-stuck", hang, found, outliers, said)


def _still(hang: Hang, found: Standing) -> Finding:
    """Nobody stands apart, or it cannot be told who."""
    every = [it for group in found.groups for it in group]
    said = "; ".join(f"{_group(group)}: {_doing(group[0])}" for group in found.groups[:_SHOWN])
    finding = _finding("training-stands-still", hang, found, every, said)
    return replace(finding, evidence=tuple(_quotes(hang, found.groups[:_SHOWN])))


def _finding(kind: str, hang: Hang, found: Standing, about: Sequence[TrainingProcess], said: str) -> Finding:
    healthy = [it for it in found.healthy if it not in about]
    name = joint(last(healthy[0])) if healthy else ""
    it = "it" if len(about) == 1 else "them"
    others = ""
    if healthy and kind == "collectives-out-of-step":
        others = f"; {ranks(healthy)} {_wait(healthy)} in {name}, called at {where(last(healthy[0]))}"
    elif name:
        others = f"; {len(healthy)} other{'s' if len(healthy) > 1 else ''} {_wait(healthy)} for {it} in {name}"
    elif healthy:
        others = f"; {ranks(healthy)}: {_doing(healthy[0])}"
    slow = KINDS[kind].decisions == (Decision.WAIT,)
    return KINDS[kind].finding(
        f"{said}{others} ({hang.sign})",
        objects=(*_objects(about), f"submission/{hang.submission}"),
        evidence=(*_quotes(hang, [[it] for it in about[:_SHOWN]]), *_quotes(hang, [healthy] if healthy else [])),
        since=hang.since,
        decision=None if slow else _DECISIONS.get(hang.on_hang, Decision.WAIT),
    )


def _quotes(hang: Hang, groups: Iterable[Sequence[TrainingProcess]]) -> Iterable[Evidence]:
    """One stack of each group: the others of it stand at the same place."""
    for group in groups:
        sample = last(group[0])
        text = quoted(sample) or next((it.why for it in group[0].samples if it.why), "no answer")
        who = f"stack of {named(group[0])}" if len(group) == 1 else f"stacks of {ranks(group, longest=len(group))}"
        yield Evidence(object=who, text=quoting.clip(text), at=hang.taken_at[-1])


def _objects(processes: Sequence[TrainingProcess]) -> Iterable[str]:
    for process in processes:
        if process.pod:
            yield f"pod/{process.pod}"


def _all(processes: Sequence[TrainingProcess]) -> str:
    more = f" and {len(processes) - _SHOWN} more" if len(processes) > _SHOWN else ""
    return "; ".join(named(it) for it in processes[:_SHOWN]) + more


def _group(processes: Sequence[TrainingProcess]) -> str:
    return named(processes[0]) if len(processes) == 1 else ranks(processes)


def _doing(process: TrainingProcess) -> str:
    sample = last(process)
    at = where(sample)
    return f"{activity(sample)}, in {at}" if at else activity(sample)


def _is(processes: Sequence[TrainingProcess]) -> str:
    return "is" if len(processes) == 1 else "are"


def _wait(processes: Sequence[TrainingProcess]) -> str:
    return "waits" if len(processes) == 1 else "wait"


RULES = (
    Rule(
        ids=(
            *("rank-stopped", "rank-does-not-answer", "rank-slow"),
            *("rank-stuck", "collectives-out-of-step", "training-stands-still"),
        ),
        depth=Depth.JOB,
        check=_check,
        ends_jobs=True,
    ),
)
