"""``tear_down``: deletes every attempt of the flight by UID and waits until nothing of it is left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rayflight.airflow.links import ArchiveLink
from rayflight.airflow.operators.base import FlightOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class DeleteRayCluster(FlightOperator):
    """Returns the proof: clusters deleted, GPU-seconds held, what was kept. Raises TeardownIncomplete."""

    operator_extra_links = (ArchiveLink(),)

    def __init__(self, *, timeout: timedelta = timedelta(minutes=10), **kwargs: Any) -> None:
        super().__init__(timeout=timeout, **kwargs)

    def execute(self, context: Context) -> Any:
        """The policy asks whether the flight failed: that is whether any task upstream of this one did."""
        flight = self.the_flight()
        arguments = {"failed": self._failed(context), "deadline": self.deadline()}
        return self.finish(context, self.run_step("tear_down", flight, arguments, method="resume"))

    def _failed(self, context: Context) -> bool:
        ti = context["ti"]
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id], map_index=ti.map_index)
        mine = set(self.get_flat_relative_ids(upstream=True))
        return any(
            str(state) in ("failed", "upstream_failed")
            for run in states.values()
            for key, state in run.items()
            if key.removesuffix(f"_{ti.map_index}") in mine  # the key of a mapped task carries its index
        )
