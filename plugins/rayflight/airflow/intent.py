"""Whether a person ended a task, or Airflow merely lost sight of it: ``on_kill`` alone proves neither (decision 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rayflight.airflow import access

if TYPE_CHECKING:
    from rayflight.airflow.access import Access
    from rayflight.lifecycle.flight import Say


def ended_by_a_person(ti: Any, *, at_work: str, say: Say) -> bool:
    """Asks Airflow for the task's own state: False while that is ``at_work``, or cannot be read.

    ``at_work`` is ``deferred`` for a trigger (a triggerer that was frozen finds its triggers taken) and ``running`` for
    a task process (a worker that is shut down, a timeout).
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        states = RuntimeTaskInstance.get_task_states(
            dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=[ti.task_id], map_index=ti.map_index
        )
    except Exception as error:  # noqa: BLE001 - unreadable, for whatever reason, means: do nothing (decision 5)
        say("Not stopping anything: this task's own state cannot be read (%s)", error)
        return False
    found = [state for run in states.values() for state in run.values()] if states else []
    return bool(found) and all(str(state) != at_work for state in found)


async def stop(place: Access, cluster: Mapping[str, Any], submission_id: str, say: Say) -> None:
    """Ask Ray to stop the submission."""
    from rayflight.backends.base import ClusterRef

    async with access.backend(place) as backend:
        stopped = await backend.jobs(ClusterRef.from_dict(cluster)).stop(submission_id)
    say("A person ended this task: asked Ray to stop %s (%s)", submission_id, stopped)
