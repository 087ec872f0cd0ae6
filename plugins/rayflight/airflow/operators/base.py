"""What all operators of a flight share: the flight, the connection, and the two ways of waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.sdk import BaseOperator, BaseOperatorLink

from rayflight.airflow import access, forms, metrics, outcomes
from rayflight.airflow.links import ArchiveLink, RayDashboardLink
from rayflight.airflow.retry import DiagnosisRetryPolicy
from rayflight.errors import InvalidSpec, RayflightError

T = TypeVar("T")

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from rayflight.lifecycle.flight import Flight, Tools
    from rayflight.states import Stage

    FlightData = Mapping[str, Any] | XComArg  # what PlanFlight or CreateRayCluster returned


class FlightOperator(BaseOperator):
    """An operator that works on one flight. Raises rayflight.errors with what, which, why and the next step."""

    template_fields: Sequence[str] = ("flight", "conn_id")
    operator_extra_links: Collection[BaseOperatorLink] = (RayDashboardLink(), ArchiveLink())
    ui_color = "#dcebf7"
    trains = False  # whether its outcome is a training's

    def __init__(
        self,
        *,
        flight: FlightData | None = None,
        conn_id: str = access.DEFAULT_CONNECTION,
        deferrable: bool = True,
        timeout: timedelta | str = "30m",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("retry_policy", DiagnosisRetryPolicy())
        super().__init__(**kwargs)
        self.flight, self.conn_id = flight, conn_id
        self.deferrable, self.timeout = deferrable, forms.span(timeout, field="timeout")

    def the_flight(self) -> Flight:
        """The flight that was handed over. Raises InvalidSpec when there is none."""
        from rayflight.lifecycle.flight import Flight

        try:
            if isinstance(self.flight, Mapping):
                return Flight.from_dict(self.flight)
            why = f"flight is {type(self.flight).__name__}"
        except (KeyError, TypeError) as error:
            why = f"what came is not a flight ({error})"
        raise InvalidSpec(
            "No flight was handed over to task",
            which=self.task_id,
            why=why,
            next_step="pass the output of PlanFlight or CreateRayCluster as flight=",
        )

    def run_async(self, recipe: Callable[[Tools], Awaitable[T]], flight: Flight) -> T:
        """Run a recipe now, in this process."""
        try:
            return asyncio.run(self._with_tools(recipe, flight))
        except RayflightError as error:
            self._count(error)
            self.log.debug("What lies behind the error of this task", exc_info=error)
            raise error from None  # its sentence says why: the task log need not show four exceptions of libraries

    async def _with_tools(self, recipe: Callable[[Tools], Awaitable[T]], flight: Flight) -> T:
        from rayflight.lifecycle.flight import Tools

        async with access.backend(await access.aaccess(self.conn_id)) as backend:
            archive = access.archive(flight.archive)
            await archive.check()
            fleet = access.fleet(flight)
            async with Tools(backend=backend, archive=archive, say=self.log.info, fleet=fleet) as tools:
                return await recipe(tools)

    def run_step(
        self, step: str, flight: Flight, arguments: dict[str, Any], *, method: str, stop_on_kill: bool = False
    ) -> dict[str, Any]:
        """Wait for a step: deferred (then ``method`` gets the event), or here with ``deferrable=False``."""
        if self.deferrable:
            self._defer(step, flight, arguments, method=method, stop_on_kill=stop_on_kill)
        from rayflight.airflow.steps import STEPS

        return self.run_async(lambda tools: STEPS[step](tools, flight, arguments), flight)

    def _defer(
        self, step: str, flight: Flight, arguments: dict[str, Any], *, method: str, stop_on_kill: bool
    ) -> NoReturn:
        from rayflight.airflow.triggers import StepTrigger

        trigger = StepTrigger(
            step=step, flight=flight.to_dict(), conn_id=self.conn_id, arguments=arguments, stop_on_kill=stop_on_kill
        )
        self.defer(trigger=trigger, method_name=method)

    def resume(self, context: Context, event: dict[str, Any]) -> Any:
        """After a deferral: the step's result as this task's result, or the step's error."""
        return self.finish(context, self.outcome(event))

    def outcome(self, event: dict[str, Any]) -> dict[str, Any]:
        """The step's result. Raises what the step raised; counted here, since a trigger has no metrics."""
        try:
            return outcomes.result(event)
        except RayflightError as error:
            self._count(error)
            raise

    def _count(self, error: RayflightError) -> None:
        metrics.failed(error, stage=self.task_id.rpartition(".")[2], training=self.trains)

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """Last words of the task; the result goes to XCom."""
        return result

    def deadline(self, after: timedelta | None = None) -> str:
        """An absolute time, so that a restart does not start the wait anew."""
        return (datetime.now(UTC) + (after or self.timeout)).isoformat()

    def ensure_arguments(self, context: Context, stage: Stage, after: timedelta | None = None) -> dict[str, Any]:
        """Arguments of the ``ensure`` step for this try."""
        ti = context["ti"]
        return {
            "stage": stage.value,
            "try_number": ti.try_number,
            "last_try": ti.try_number > int(getattr(ti, "max_tries", 0)),
            "deadline": self.deadline(after),
        }


def attempt(context: Context, retries: int) -> int:
    """The attempt that this task's try belongs to: a retry stays in it, a clear begins the next one.

    Airflow raises max_tries by the tries that were used up when a task is cleared, and leaves it alone on a retry.
    """
    return max(1, int(getattr(context["ti"], "max_tries", 0)) - retries + 1)


def plain(value: Any) -> Any:
    """Models become plain data, so that Airflow can template, serialise and show them."""
    return value.to_dict() if hasattr(value, "to_dict") else value
