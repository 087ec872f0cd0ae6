"""What Airflow shows of the product's answer to a drill: the failed task's verdict, its times, its retry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dev.airflow_client import AirflowClient, Run, Task
from dev.airflow_process import wait_until
from dev.drills.results import Answer

DAG = "failure_drills"
TRAIN = "train"
FAILED = ("failed", "up_for_retry")
_DECIDED, _FAILED = "Decided: ", "Task failed with exception"  # in a trigger; in the task


def failed_task(tasks: Sequence[Task], index: int, *, for_good: bool = False) -> Task | None:
    """The task that failed with this drill's verdict: its training, or one before it."""
    states = FAILED[:1] if for_good else FAILED
    for task in tasks:
        mine = task.task_id != TRAIN or task.map_index == index
        if mine and task.state in states and task.task_id.startswith(("flight.", TRAIN)):
            return task
    return None


def answer(client: AirflowClient, run: Run, task: Task) -> Answer:
    """What that task said and when. A task that just failed may not have written everything yet."""
    said: dict[str, Any] = {}

    def written() -> bool:
        said.update(client.xcom(run, task.task_id, task.map_index, key="verdict") or {})
        return bool(said)

    wait_until(written, 15, every=0.5)
    events = client.log_events(run, task.task_id, task.map_index, max(task.try_number, 1))
    told = _last(events, _FAILED)
    decided = _last(events, _DECIDED)
    return Answer(
        error=said.get("error", "") or client.failure(run, task).partition(":")[0],
        cause=said.get("id", ""),
        decision=said.get("decision", ""),
        text=said.get("text", "") or client.failure(run, task),
        decided=_when(decided or told),
        told=_when(told),
        retried=task.state == "up_for_retry",
        retry_after=said.get("retry_after"),
    )


def submission(client: AirflowClient, run: Run, index: int) -> str:
    """The id of the drill's submission, or what matches none."""
    try:
        found = re.search(r"Submitted (\S+) \(number", client.log(run, TRAIN, index))
    except RuntimeError:  # no log: it never got that far
        found = None
    return found[1] if found else "(none)"


def _last(events: Sequence[Any], name: str) -> Mapping[str, Any] | None:
    found = [event for event in events if isinstance(event, Mapping) and str(event.get("event")).startswith(name)]
    return found[-1] if found else None


def _when(event: Mapping[str, Any] | None) -> float | None:
    return datetime.fromisoformat(event["timestamp"]).timestamp() if event else None
