"""``tear_down``: deletes every attempt of the flight by UID and waits until nothing of it is left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rayflight.airflow import metrics
from rayflight.airflow.links import ArchiveLink
from rayflight.airflow.operators.base import FlightOperator
from rayflight.snapshot.times import seconds_between

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

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """How long GPUs were held, and for what."""
        if not result.get("kept"):
            flight = self.the_flight()
            try:
                useful = flight.cluster_spec.gpus * self._trained(context)
            except Exception as error:  # noqa: BLE001 - Airflow's API may not answer: a teardown does not fail by it
                self.log.warning("GPU-seconds are not counted: %s", error)
            else:
                metrics.landed(context, result, simulated=bool(flight.spec.get("simulated")), useful=useful)
        return result

    def _trained(self, context: Context) -> float:
        """Seconds of the trainings upstream that succeeded, by Ray's own times."""
        ids = [task.task_id for task in self.get_flat_relatives(upstream=True) if getattr(task, "trains", False)]
        ti = context["ti"]
        found = [ti.xcom_pull(task_ids=task_id, map_indexes=ti.map_index) for task_id in ids]
        seconds = (seconds_between(it.get("started_at"), it.get("ended_at")) for it in found if isinstance(it, dict))
        return sum(value for value in seconds if value)

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
