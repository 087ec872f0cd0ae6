"""The matrix for people: a table of at most 120 columns for a log, problems first; Markdown for the report. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from rayflight.findings import Check
from rayflight.states import Verdict

_ORDER = (Verdict.FAILED, Verdict.UNKNOWN, Verdict.WARNED, Verdict.PASSED, Verdict.NOT_APPLICABLE)
_SHOWN = {Verdict.UNKNOWN: "not checked", Verdict.NOT_APPLICABLE: "n/a"}
_WIDTHS = (11, 24, 34, 44)  # with the blanks between them 119
_HEADER = ("VERDICT", "CHECK", "SUBJECT", "OBSERVED")
_CLIP = 400  # characters of one cell


def in_order(checks: Iterable[Check]) -> list[Check]:
    """Problems first; of one verdict, by level as they were made."""
    return sorted(checks, key=lambda check: _ORDER.index(Verdict(check.verdict)))


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """The whole table, and how many of each verdict there are."""
    yield _line(_HEADER)
    for check in in_order(checks):
        seen = f"{check.observed} ({check.evidence})" if check.evidence else check.observed
        expected = "" if check.verdict in (Verdict.PASSED, Verdict.NOT_APPLICABLE) else f"; expected {check.expected}"
        cells = (shown(check), f"{check.level} {check.id}", check.subject, f"{_clipped(seen)}{expected}")
        wrapped = [
            wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(cells, _WIDTHS, strict=True)
        ]
        for row in zip_longest(*wrapped, fillvalue=""):
            yield _line(row)
    yield summary(checks)


def summary(checks: Iterable[Check]) -> str:
    """``1 failed, 30 passed, 4 n/a``."""
    counts = Counter(Verdict(check.verdict) for check in checks)
    return ", ".join(f"{counts[verdict]} {_SHOWN.get(verdict, str(verdict))}" for verdict in _ORDER if counts[verdict])


def shown(check: Check) -> str:
    """The verdict in the words of the table."""
    verdict = Verdict(check.verdict)
    return str(_SHOWN.get(verdict, str(verdict).upper() if verdict is Verdict.FAILED else str(verdict)))


def markdown(checks: Sequence[Check]) -> str:
    """The same for the report."""
    rows = [
        f"| {shown(it)} | {it.level} | {it.id} | {_cell(it.subject)} | {_cell(it.expected)} | {_cell(_seen(it))} |"
        for it in in_order(checks)
    ]
    head = "| verdict | level | check | subject | expected | observed |\n|---|---|---|---|---|---|"
    return "\n".join(["## Verification", "", f"{summary(checks)}.", "", head, *rows, ""])


def _seen(check: Check) -> str:
    return f"{check.observed} ({check.evidence})" if check.evidence else check.observed


def _cell(text: str) -> str:
    return _clipped(text).replace("|", "\\|")


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _CLIP else f"{line[:_CLIP]}…"


def _line(cells: Sequence[str]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()
