"""The part of Airflow's task context that Rayflight's operators use. Anything else that is asked for fails the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass
class FakeTaskInstance:
    """One try of one task; remembers what was pushed."""

    task_id: str = "plan"
    dag_id: str = "train"
    run_id: str = "run-1"
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 0
    pushed: dict[str, Any] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)  # states of the run's other tasks

    def get_task_states(self, *, dag_id: str, run_ids: list[str], map_index: int) -> dict[str, dict[str, str]]:
        assert (dag_id, run_ids, map_index) == (self.dag_id, [self.run_id], self.map_index)
        return {self.run_id: self.others}

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed[key] = value


@dataclass
class FakeDagRun:
    """A run that was started by hand."""

    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None


def a_context(**changes: Any) -> Any:
    return {"ti": FakeTaskInstance(**changes), "dag_run": FakeDagRun()}


def caused_by(error: BaseException) -> list[BaseException]:
    """What Airflow prints below the error: the chain of its causes."""
    chain = []
    while (following := error.__cause__ or (None if error.__suppress_context__ else error.__context__)) is not None:
        chain.append(following)
        error = following
    return chain


def assert_one_sentence(error: BaseException) -> None:
    """One line, no scar of an empty or doubled part, and nothing below it that buries it."""
    text = str(error)
    assert "Next: " in text
    assert not any(scar in text for scar in ("\n", "::", "..", ": :", "  ", "None:", ": .", "Traceback")), text
    assert caused_by(error) == []
