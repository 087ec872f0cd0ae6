"""The janitor as a task: asks Airflow about the run behind each cluster, deletes what none owns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from rayflight.airflow import access, settings
from rayflight.errors import InvalidSpec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.labels import Owner
    from rayflight.lifecycle.janitor import RunState

_WILL_RUN = ("running", "queued", "scheduled", "deferred", "up_for_retry", "up_for_reschedule", "restarting", "None")


class SweepClusters(BaseOperator):
    """Returns what was found and done, one row per cluster. Needs ``[rayflight] instance``: see ``required_instance``.

    :param namespaces: where to look; by default the connection's allowed namespaces, or its own
    :param report_only: say what would be deleted, delete nothing
    """

    template_fields: Sequence[str] = ("namespaces", "report_only", "conn_id")

    def __init__(
        self,
        *,
        namespaces: Sequence[str] | str = (),
        report_only: bool | str = False,
        conn_id: str = access.DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.namespaces, self.report_only, self.conn_id = namespaces, report_only, conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Raises InvalidSpec, ApiUnreachable, PermissionMissing."""
        from rayflight.lifecycle.janitor import sweep

        ti = context["ti"]
        kube = access.access(self.conn_id)
        asked = json.loads(self.namespaces.replace("'", '"')) if isinstance(self.namespaces, str) else self.namespaces
        namespaces = [kube.allowed(name) for name in asked]

        async def run() -> list[dict[str, Any]]:
            async with access.backend(kube) as backend:
                rows = await sweep(
                    backend,
                    airflow=required_instance(),
                    namespaces=namespaces or list(kube.allowed_namespaces) or [kube.namespace],
                    ask=lambda owner: asyncio.to_thread(state_of, ti, owner),
                    now=datetime.now(UTC),
                    dry_run=str(self.report_only).lower() == "true",
                    say=self.log.info,
                )
            return [row.to_dict() for row in rows]

        return asyncio.run(run())


def required_instance() -> str:
    """This installation's name: without one, two Airflows would take each other's clusters for orphans."""
    name = settings.instance()
    if name is None:
        raise InvalidSpec(
            "The janitor needs a name for this Airflow:",
            which="[rayflight] instance",
            why="it is not set, so clusters of another Airflow could not be told from ours",
            next_step="set AIRFLOW__RAYFLIGHT__INSTANCE to a name that no other Airflow on these clusters has",
        )
    return name


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
    waiting = any(str(state) in _WILL_RUN for run in states.values() for state in run.values())
    return RunState.ALIVE if waiting else RunState.ENDED
