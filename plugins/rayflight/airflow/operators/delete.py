"""``tear_down``: deletes every attempt of the flight by UID and waits until nothing of it is left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from rayflight.airflow import metrics
from rayflight.airflow.links import ArchiveLink
from rayflight.airflow.operators.base import FlightOperator
from rayflight.snapshot.times import seconds_between

if TYPE_CHECKING:
    from airflow.sdk import Context


class DeleteRayCluster(FlightOperator):
    """Returns the proof: clusters deleted, GPU-seconds held, what was kept. Raises TeardownIncomplete."""

    operator_extra_links = (ArchiveLink(),)

    def __init__(self, *, timeout: timedelta | str = "10m", **kwargs: Any) -> None:
        super().__init__(timeout=timeout, **kwargs)

    def execute(self, context: Context) -> Any:
        """The policy asks whether the flight failed: that is whether any task upstream of this one did."""
        flight = self.the_flight()
        arguments = {"failed": self._failed(context), "deadline": self.deadline()}
        return self.finish(context, self.run_step("tear_down", flight, arguments, method="resume"))

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """How long GPUs were held, and for what. Fails where a failed run would else end green."""
        if not result.get("kept"):
            flight = self.the_flight()
            try:
                useful = flight.cluster_spec.gpus * self._trained(context)
            except Exception as error:  # noqa: BLE001 - Airflow's API may not answer: a teardown does not fail by it
                self.log.warning("GPU-seconds are not counted: %s", error)
            else:
                metrics.landed(context, result, simulated=bool(flight.spec.get("simulated")), useful=useful)
        self._end_red(context, result)
        return result

    def _end_red(self, context: Context, result: dict[str, Any]) -> None:
        """A run that is marked failed before it trains: Airflow skips the training, and a skipped leaf is a success."""
        states = self._upstream(context)
        skipped = [task_id for task_id in self._trainings() if states.get(task_id) == "skipped"]
        failed = [task_id for task_id, state in states.items() if state == "failed"]
        if skipped and failed:
            context["ti"].xcom_push(key="return_value", value=result)
            raise AirflowFailException(
                f"The teardown is complete, and this task fails for the run's sake: {failed[0]} failed and Airflow "
                f"skipped {skipped[0]} (the run was marked failed), which alone would let the run end as a success."
            )

    def _trainings(self) -> list[str]:
        return [task.task_id for task in self.get_flat_relatives(upstream=True) if getattr(task, "trains", False)]

    def _trained(self, context: Context) -> float:
        """Seconds of the trainings upstream that succeeded, by Ray's own times."""
        ti = context["ti"]
        found = [ti.xcom_pull(task_ids=task_id, map_indexes=ti.map_index) for task_id in self._trainings()]
        seconds = (seconds_between(it.get("started_at"), it.get("ended_at")) for it in found if isinstance(it, dict))
        return sum(value for value in seconds if value)

    def _failed(self, context: Context) -> bool:
        return any(state in ("failed", "upstream_failed") for state in self._upstream(context).values())

    def _upstream(self, context: Context) -> dict[str, str]:
        """States of the tasks upstream of this one, of this map index, by task id."""
        ti = context["ti"]
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id], map_index=ti.map_index)
        mine = set(self.get_flat_relative_ids(upstream=True))
        found = {
            key.removesuffix(f"_{ti.map_index}"): str(state)  # the key of a mapped task carries its index
            for run in states.values()
            for key, state in run.items()
        }
        return {task_id: state for task_id, state in found.items() if task_id in mine}
