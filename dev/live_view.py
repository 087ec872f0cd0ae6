"""A flight told on a terminal while it happens: stages, progress and the verification matrix, drawn with rich.

Where the output is no terminal (a file, CI), ``FlightView`` tells the same line by line. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from dev.airflow_client import Task
from dev.flight_view import GROUP, FlightView

STAGES = ("plan", "provision", "wait_ready", "verify", "train", "collect_logs", "tear_down")
_COLOURS = {
    "success": "green", "failed": "bold red", "upstream_failed": "red", "running": "cyan", "deferred": "cyan",
    "up_for_retry": "yellow", "passed": "green", "unknown": "yellow", "not applicable": "dim",
}  # fmt: skip
_WORDS = {"deferred": "waiting", None: "", "none": ""}


@dataclass
class LiveView(FlightView):
    """Draws one run; what has ended stays on the screen as lines above the picture."""

    console: Console = field(default_factory=Console)
    tasks: dict[str, Task] = field(default_factory=dict)
    live: Live | None = None

    def say(self, text: str) -> None:
        """One line above the picture."""
        self.console.print(text, highlight=False)

    def follow(self) -> str:
        """Draw until the run has ended; returns its state."""
        state = ""
        with Live(self._picture(), console=self.console, refresh_per_second=4) as self.live:
            for change in self.client.watch(self.run, idle=self._show_progress):
                if change.task is None:
                    state = str(change.state)
                else:
                    self._show_task(change.task)
                self.live.update(self._picture())
        return state

    def _show_task(self, task: Task) -> None:
        self.tasks[task.name.removeprefix(GROUP + ".")] = task
        self._show_details(task)

    def _show_failure(self, text: str) -> None:
        self.console.print(f"[red]{self.failed[-1].name}[/red]: {text}", highlight=False)

    def _show_checks(self, checks: Iterable[Mapping[str, Any]]) -> None:
        self.console.print(matrix(checks))

    def _show_progress(self, tasks: Sequence[Task]) -> None:
        super()._show_progress(tasks)
        if self.live is not None:
            self.live.update(self._picture())

    def _picture(self) -> RenderableType:
        table = Table(title=f"{self.run.dag_id} {self.run.run_id}", title_justify="left")
        for name in ("stage", "state", "seconds", "try"):
            table.add_column(name)
        for stage in STAGES:
            task = self.tasks.get(stage)
            state = task.state if task else None
            seconds = f"{task.seconds:.1f}" if task and task.seconds is not None else ""
            again = str(task.try_number) if task and task.try_number > 1 else ""
            table.add_row(stage, coloured(state or "", _WORDS.get(state, state or "")), seconds, again)
        total = self.report.get("epochs")
        if not total:
            return table
        bar = ProgressBar(total=float(total), completed=float(self.report.get("epoch", 0)), width=40)
        return Group(table, Group(f"epoch {self.report.get('epoch')} of {total}", bar))


def matrix(checks: Iterable[Mapping[str, Any]]) -> Table:
    """The verification matrix, whole cells, coloured verdicts."""
    table = Table(title="verification", title_justify="left")
    keys = ("level", "id", "subject", "expected", "observed", "verdict")
    for name in ("level", "check", *keys[2:]):
        table.add_column(name, overflow="fold")
    for check in checks:
        cells = [str(check.get(key, "")) for key in keys]
        table.add_row(*cells[:-1], coloured(cells[-1], cells[-1]))
    return table


def coloured(state: str, text: str) -> str:
    """The text in the colour of the state or verdict."""
    colour = _COLOURS.get(state)
    return f"[{colour}]{text}[/{colour}]" if colour and text else text
