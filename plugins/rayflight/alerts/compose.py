"""From an exception, a diagnosis or a matrix to one alert. Pure; everything that goes out is masked here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from rayflight.alerts.message import Alert, Kind, Link, Run, Where
from rayflight.errors import Diagnosed, RayflightError, VerificationFailed
from rayflight.findings import Check, Diagnosis, Finding
from rayflight.labels import digest
from rayflight.masking import Masker
from rayflight.states import Verdict

_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9A-Za-z][0-9A-Za-z-]{5,}\b")
_MOST = 5  # other findings and devices that are named: a message is read on a phone
_HEAD, _TAIL = 300, 900  # characters of one field: the last lines of a log say more than the first
_PREFIX = "verification-"


def problem(
    error: BaseException | str | None,
    *,
    run: Run,
    at: datetime,
    diagnosis: Diagnosis | None = None,
    checks: Sequence[Check] = (),
    links: Iterable[Link] = (),
    cluster: str = "",
) -> Alert:
    """What failed. ``diagnosis`` and ``checks`` speak where there is no error that does (a DAG's callback has none)."""
    if isinstance(error, Diagnosed):
        diagnosis = error.diagnosis
    if isinstance(error, VerificationFailed):
        checks = error.checks
    cause = diagnosis.cause if diagnosis else None
    if cause is None or diagnosis is None:
        alert = _plain(error, diagnosis, run, cluster)
    else:
        alert = _caused(cause, diagnosis, checks, run, cluster)
    return _masked(replace(alert, at=_iso(at), since=alert.since or _iso(at), links=tuple(links)))


def deadline_missed(run: Run, *, at: datetime, since: str = "", late: str = "", links: Iterable[Link] = ()) -> Alert:
    """A deadline of a DAG passed: nothing has failed yet, and somebody should look."""
    return _masked(
        Alert(
            kind=Kind.PROBLEM,
            title=f"{run.dag_id} is late",
            cause="deadline-missed",
            fingerprint=fingerprint("deadline-missed", "", run),
            run=run,
            what="The run did not end before its deadline" + (f" ({late})" if late else ""),
            since=since or _iso(at),
            at=_iso(at),
            next_step="open the run: the task that is still going says what it waits for",
            links=tuple(links),
        )
    )


def healed(alert: Alert, *, run: Run, at: datetime, count: int, links: Iterable[Link] = ()) -> Alert:
    """The same fault is good again: ``run`` showed it."""
    return replace(
        alert,
        kind=Kind.RECOVERY,
        title=f"Good again: {alert.title}",
        what=f"{alert.what} This is over: {run} passed.",
        expected="",
        observed="",
        next_step="nothing to do",
        also=(),
        run=run,
        at=_iso(at),
        links=tuple(links),
        count=count,
    )


def fingerprint(cause: str, node: str, run: Run) -> str:
    """Cause and node name a fault. Where no node is at fault, the DAG's task stands for the place."""
    place = f"node/{node}" if node else f"dag/{run.dag_id}/{run.task_id}"
    return f"{cause}-{digest(cause, place)}"


def _caused(cause: Finding, diagnosis: Diagnosis, checks: Sequence[Check], run: Run, cluster: str) -> Alert:
    row = _row(cause, checks)
    where = _where(cause, row, checks, cluster)
    summary = cause.summary
    return Alert(
        kind=Kind.PROBLEM,
        title=f"{run.dag_id}: {cause.title}",
        cause=cause.id,
        fingerprint=fingerprint(cause.id, where.node, run),
        run=run,
        what=f"{row.subject}: {row.id}" if row else summary,
        expected=row.expected if row else "",
        observed=_seen(row) if row else "",
        where=where,
        since=cause.since or "",
        next_step=cause.next_step,
        also=_also(diagnosis.consequences),
    )


def _plain(error: BaseException | str | None, diagnosis: Diagnosis | None, run: Run, cluster: str) -> Alert:
    """An error without a diagnosed cause: its kind is all that a fingerprint can go by."""
    what, step = str(error or "The run failed, and nothing says why."), ""
    if isinstance(error, RayflightError):
        step = error.next_step
        if not isinstance(error, Diagnosed):  # whose sentence holds the next step already
            what = f"{error.what} {error.which}".strip() + (f": {error.why}" if error.why else "")
    kind = type(error).__name__ if isinstance(error, BaseException) else "failure"
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()
    return Alert(
        kind=Kind.PROBLEM,
        title=f"{run.dag_id}: {run.task_id.rpartition('.')[2] or 'the run'} failed",
        cause=name,
        fingerprint=fingerprint(name, "", run),
        run=run,
        what=what,
        observed="; ".join(diagnosis.facts) if diagnosis else "",
        where=Where(cluster=cluster),
        next_step=step or "read the task's log, then the archive of the run",
    )


def _row(cause: Finding, checks: Sequence[Check]) -> Check | None:
    """The row of the matrix that the cause was made of."""
    same = [check for check in checks if cause.id == f"{_PREFIX}{check.id}" and check.verdict != Verdict.PASSED]
    return next((check for check in same if cause.summary.startswith(check.subject)), same[0] if same else None)


def _where(cause: Finding, row: Check | None, checks: Sequence[Check], cluster: str) -> Where:
    facts = row.facts if row else {}
    kinds: dict[str, str] = {}
    for item in cause.objects:
        kind, _, name = item.partition("/")
        kinds.setdefault(kind, name)
    pod = str(facts.get("pod") or kinds.get("pod", "").rpartition("/")[2])
    node = str(facts.get("node") or kinds.get("node", "") or _node_of(pod, checks))
    told = (row.subject, row.observed, row.evidence) if row else ()
    said = (json.dumps(dict(facts), default=str), *told, cause.summary, *(item.text for item in cause.evidence))
    text = " ".join(said)
    gpus = tuple(dict.fromkeys(_UUID.findall(text)))
    return Where(cluster=cluster, pod=pod, node=node, gpus=gpus[:_MOST])


def _node_of(pod: str, checks: Sequence[Check]) -> str:
    """A row about a rank knows its pod only; another row of the same matrix says where that pod is."""
    return next(
        (str(it.facts["node"]) for it in checks if pod and it.facts.get("pod") == pod and it.facts.get("node")), ""
    )


def _seen(row: Check) -> str:
    return f"{row.observed} ({row.evidence})" if row.evidence else row.observed


def _also(findings: Sequence[Finding]) -> tuple[str, ...]:
    named = tuple(item.summary for item in findings[:_MOST])
    return (*named, f"and {len(findings) - _MOST} more") if len(findings) > _MOST else named


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _masked(alert: Alert) -> Alert:
    return Alert.from_dict(_clean(alert.to_dict(), Masker()))


def _clean(data: Any, masker: Masker) -> Any:
    if isinstance(data, str):
        text = masker.text(data)
        return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]} … {text[-_TAIL:]}"
    if isinstance(data, dict):
        return {key: _clean(value, masker) for key, value in data.items()}
    return [_clean(item, masker) for item in data] if isinstance(data, list | tuple) else data
