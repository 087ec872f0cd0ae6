"""What each drill showed, judged; the table for people, the figures for docs/benchmarks.md. Pure but for its file."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dev.drills.table import Drill
from dev.flight_view import table

MEDIAN_GOAL, WORST_GOAL = 5.0, 20.0  # seconds from the first sign to the verdict


@dataclass(frozen=True, kw_only=True)
class Row:
    """One drill as it was flown. Times are time.time(); ``verdict`` is when Rayflight had decided, ``told`` when the
    task had failed with it. ``wrong``: what is not as it must be, in words; empty for a drill that went well.

    How fast it was is judged over all drills: a machine that is busy with other things proves nothing wrong.
    """

    drill: str
    provoked: float | None = None
    sign: float | None = None
    sign_text: str = ""
    verdict: float | None = None
    told: float | None = None
    cause: str = ""
    decision: str = ""
    retried: bool | None = None
    retry_after: float | None = None
    alerted: bool = False
    left: tuple[str, ...] = ()
    said: str = ""
    wrong: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """From the first sign to the verdict."""
        return None if self.sign is None or self.verdict is None else self.verdict - self.sign


@dataclass(kw_only=True)
class Answer:
    """What Airflow shows of the product's answer to one drill; None everywhere where nothing failed."""

    error: str = ""
    cause: str = ""
    decision: str = ""
    text: str = ""
    decided: float | None = None
    told: float | None = None
    retried: bool | None = None
    retry_after: float | None = None  # seconds
    alerted: bool = False
    proof: str = ""  # what else must be true and was not seen
    left: list[str] = field(default_factory=list)

    @property
    def named(self) -> str:
        """The id of the finding, or the kind of error where there is none."""
        return self.cause or self.error


def judged(drill: Drill, answer: Answer, *, provoked: float | None, sign: tuple[float, str] | None) -> Row:
    """The row of a drill, with everything that is wrong in it."""
    row = Row(
        drill=drill.name,
        provoked=provoked,
        sign=sign[0] if sign else None,
        sign_text=sign[1] if sign else "",
        verdict=answer.decided,
        told=answer.told,
        cause=answer.named,
        decision=answer.decision or ("fail" if answer.error else ""),
        retried=answer.retried,
        retry_after=answer.retry_after,
        alerted=answer.alerted,
        left=tuple(answer.left),
        said=answer.text,
    )
    return Row(**{**asdict(row), "wrong": tuple(_wrong(drill, answer, row))})


def _wrong(drill: Drill, answer: Answer, row: Row) -> Iterable[str]:
    if row.left:
        yield f"left behind: {', '.join(row.left)}"
    if answer.proof:
        yield answer.proof
    if not drill.cause:
        if answer.error:
            yield f"nothing should fail, and {answer.named} did: {answer.text}"
    elif not answer.error:
        yield "no verdict"
    else:
        yield from _wrong_words(drill, answer, row)
        yield from _wrong_deeds(drill, answer, row)


def _wrong_words(drill: Drill, answer: Answer, row: Row) -> Iterable[str]:
    if row.cause not in drill.cause:
        yield f"cause {row.cause}, expected {' or '.join(drill.cause)}: {answer.text}"
    if drill.says not in answer.text:
        yield f"the message lacks {drill.says!r}: {answer.text}"
    if drill.decision and row.decision != drill.decision:
        yield f"decision {row.decision}, expected {drill.decision}"


def _wrong_deeds(drill: Drill, answer: Answer, row: Row) -> Iterable[str]:
    if answer.retried is not None and answer.retried != drill.retried:
        yield "retried" if answer.retried else "not retried"
    if not row.alerted:
        yield "no alert"
    if drill.sign and row.sign is None:
        yield "the observer saw no sign"


def shown(rows: Sequence[Row]) -> str:
    """The table."""
    header = ("drill", "provoked at", "first sign", "verdict", "seconds", "cause", "decision", "retry", "alert", "left")
    lines: list[Sequence[str]] = [(*header, "")]
    for row in rows:
        seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
        after = f"after {row.retry_after:.0f} s" if row.retry_after else "yes"
        retry = {None: "", False: "no", True: after}[row.retried]
        lines.append(
            (
                row.drill,
                _clock(row.provoked),
                _clock(row.sign),
                _clock(row.verdict),
                seconds,
                row.cause or "(none)",
                row.decision,
                retry,
                "sent" if row.alerted else "",
                f"{len(row.left)} things" if row.left else "nothing",
                "WRONG" if row.wrong else "right",
            )
        )
    notes = [f"{row.drill}: {wrong}" for row in rows for wrong in row.wrong]
    return "\n".join([table(lines), *notes])


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures: how many were right, and the seconds from first sign to verdict."""
    seconds = [row.seconds for row in rows if row.seconds is not None]
    told = [row.told - row.sign for row in rows if row.sign is not None and row.told is not None]
    return {
        "drills": len(rows),
        "right": sum(not row.wrong for row in rows),
        "median": round(statistics.median(seconds), 2) if seconds else None,
        "worst": round(max(seconds), 2) if seconds else None,
        "slower_than_20_s": [row.drill for row in rows if (row.seconds or 0) > WORST_GOAL],
        "median_until_the_task_failed": round(statistics.median(told), 2) if told else None,
        "user_errors_retried": [row.drill for row in rows if row.decision == "fail" and row.retried],
        "capacity_not_retried": [row.drill for row in rows if row.decision.startswith("retry") and not row.retried],
        "left_behind": [row.drill for row in rows if row.left],
    }


def save(file: Path, rows: Sequence[Row]) -> list[Row]:
    """Write the figures; rows of drills that were not flown this time are kept. Returns all."""
    kept = {row.drill: row for row in load(file)} | {row.drill: row for row in rows}
    file.parent.mkdir(parents=True, exist_ok=True)
    every = list(kept.values())
    file.write_text(json.dumps({"summary": summary(every), "rows": [asdict(row) for row in every]}, indent=1))
    return every


def load(file: Path) -> list[Row]:
    """The rows of an earlier time; none where there is no file."""
    if not file.exists():
        return []
    rows = json.loads(file.read_text())["rows"]
    return [Row(**{**row, "left": tuple(row["left"]), "wrong": tuple(row["wrong"])}) for row in rows]


def _clock(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:10]
