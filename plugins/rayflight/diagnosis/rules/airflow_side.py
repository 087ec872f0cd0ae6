"""What Airflow itself did, read from its task's log where it is at hand (``airflow-*.log``). Knows no Airflow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Finding
from rayflight.snapshot.times import instant

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)")


@dataclass(frozen=True, slots=True)
class _Words:
    id: str
    pattern: re.Pattern[str]


_SAID = (
    _Words("airflow-heartbeat-lost", re.compile(r"without a heartbeat|heartbeat timeout|[Zz]ombie (job|task)")),
    _Words("airflow-run-timed-out", re.compile(r"dagrun_timeout|DagRun .*timed out|Run .* of .* has timed-out")),
    _Words(
        "airflow-task-timed-out",
        re.compile(r"AirflowTaskTimeout|TaskDeferralTimeout|TaskDeferralError: Trigger timeout"),
    ),
    _Words(
        "airflow-state-changed",
        re.compile(
            r"has been externally set to|shouldn't be running anymore|Task (instance )?is not in running state"
            r"|Received SIGTERM\. Terminating subprocesses"
        ),
    ),
    _Words(
        "airflow-lacks-right",
        re.compile(
            r'forbidden: User "system:serviceaccount:[^"]+" cannot (?!get resource "pods/log")\w+ resource "[^"]+"'
        ),
    ),
)


def _check(case: Case) -> Iterable[Finding]:
    given: set[str] = set()
    for name, text in case.now.logs.items():
        for said in _SAID if name.startswith("airflow") else ():
            found = said.pattern.search(text)
            if found and said.id not in given:
                given.add(said.id)
                yield _finding(case, said.id, name, quoting.line_of(found))


def _finding(case: Case, kind: str, name: str, line: str) -> Finding:
    job = case.job
    return KINDS[kind].finding(
        f"{KINDS[kind].title}: {quoting.clip(line, 300)}",
        objects=(f"raycluster/{case.now.name}", *((f"submission/{job.id}",) if job else ())),
        evidence=(quoting.log(name, line),),
        since=_when(line),
    )


def _when(line: str) -> str | None:
    found = _TIME.search(line)
    try:
        return instant(found[0]) if found else None
    except ValueError:  # 2026-13-01: it looked like a time
        return None


RULES = (Rule(ids=tuple(item.id for item in _SAID), depth=Depth.NODE, check=_check),)
