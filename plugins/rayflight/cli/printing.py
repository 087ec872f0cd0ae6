"""How a diagnosis looks on a terminal. Prints; decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rayflight.diagnosis import report
from rayflight.diagnosis.timeline import timeline
from rayflight.findings import Diagnosis
from rayflight.snapshot.model import Snapshot

_NARROW = 120  # columns when nobody says how many there are: a pipe, a CI log
_COLOURS = {"healthy": "bold green", "cause": "bold red", "unknown": "bold yellow"}


class _Console(Console):
    """Rich would end the process with code 1, which is a verdict here."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def show(diagnosis: Diagnosis, moments: Sequence[Snapshot], console: Console | None = None) -> None:
    """The report for a person; readable at 120 columns."""
    out = console or _Console(highlight=False)
    if not out.is_terminal:
        out.width = _NARROW
    newest = moments[-1]
    out.print(Text(report.headline(diagnosis), style=_COLOURS[diagnosis.verdict]))
    out.print(Text(f"RayCluster {newest.namespace}/{newest.name}, seen at {newest.taken_at}", style="dim"))
    cause = diagnosis.cause
    if cause:
        out.print(Text(f"\n{cause.summary}"))
        out.print(Text.assemble("\n", ("Next: ", "bold"), cause.next_step))
        out.print(Text.assemble(("Decision: ", "bold"), report.decision(cause)))
    _list(out, "What was seen", diagnosis.facts)
    _timeline(out, diagnosis, moments)
    if cause:
        _list(out, "Evidence", [report.quoted(item) for item in cause.evidence])
    _list(out, "Consequences and side findings", [report.followed(item) for item in diagnosis.consequences])
    _list(out, "What could not be read", diagnosis.gaps)


def _list(out: Console, title: str, lines: Sequence[str]) -> None:
    if lines:
        out.print(Text(f"\n{title}", style="bold"))
        for line in lines:
            grid = Table.grid(padding=(0, 1))
            grid.add_row("*", Text(" ".join(line.split())))
            out.print(grid)


def _timeline(out: Console, diagnosis: Diagnosis, moments: Sequence[Snapshot]) -> None:
    entries = timeline(moments, diagnosis)
    if not entries:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("UTC", width=8, no_wrap=True)
    table.add_column("Kubernetes", ratio=1, overflow="fold")
    table.add_column("Ray", ratio=1, overflow="fold")
    for item in entries:
        text = Text(item.text, style="red" if item.weight >= 4 else "")
        left, right = (text, Text("")) if item.side == "kubernetes" else (Text(""), text)
        table.add_row(report.clock(item.at), left, right)
    out.print()
    out.print(table)
