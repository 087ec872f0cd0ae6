"""The janitor as a task: asks Airflow about the run behind each cluster, deletes what none owns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from rayflight.airflow import access, forms
from rayflight.airflow.sweeping import WILL_RUN, sweep_now

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.labels import Owner
    from rayflight.lifecycle.janitor import RunState


class SweepClusters(BaseOperator):
    """Returns what was found and done, one row per cluster. Needs ``[rayflight] instance``.

    :param namespaces: where to look; by default the connection's allowed namespaces, or its own
    :param release: names of clusters kept after a failure that are needed no more
    :param report_only: say what would be deleted, delete nothing
    """

    template_fields: Sequence[str] = ("namespaces", "release", "report_only", "conn_id")

    def __init__(
        self,
        *,
        namespaces: Sequence[str] | str = (),
        release: Sequence[str] | str = (),
        report_only: bool | str = False,
        conn_id: str = access.DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.namespaces, self.release = namespaces, release
        self.report_only, self.conn_id = report_only, conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Raises InvalidSpec, ApiUnreachable, PermissionMissing."""
        ti = context["ti"]

        async def ask(owner: Owner) -> RunState:
            return await asyncio.to_thread(state_of, ti, owner)

        rows = sweep_now(
            access.access(self.conn_id),
            namespaces=_names(self.namespaces),
            release=_names(self.release),
            dry_run=forms.truth(self.report_only, field="report_only"),
            ask=ask,
            say=self.log.info,
        )
        return [row.to_dict() for row in rows]


def _names(value: Sequence[str] | str) -> list[str]:
    """A templated list arrives as text: `['a', 'b']`; a person writes `a, b`."""
    if isinstance(value, str):
        return value.strip().strip("[]").replace("'", " ").replace('"', " ").replace(",", " ").split()
    return [str(item) for item in value]


def state_of(ti: Any, owner: Owner) -> RunState:
    """What Airflow says about the run, by the task's own channel to the API server."""
    from rayflight.lifecycle.janitor import RunState

    try:
        if ti.get_dr_count(dag_id=owner.dag_id, run_ids=[owner.run_id]) == 0:
            return RunState.ABSENT
        if ti.get_dagrun_state(dag_id=owner.dag_id, run_id=owner.run_id) in ("running", "queued"):
            return RunState.ALIVE
        states = ti.get_task_states(dag_id=owner.dag_id, run_ids=[owner.run_id])
    except Exception:  # noqa: BLE001 - whatever kept Airflow from answering, nothing is deleted then
        return RunState.UNKNOWN
    waiting = any(str(state) in WILL_RUN for run in states.values() for state in run.values())
    return RunState.ALIVE if waiting else RunState.ENDED
