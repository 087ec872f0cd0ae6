"""``verify``: the four verifications, on the device, in the very worker pods that will train."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rayflight.airflow import forms, metrics
from rayflight.airflow.assets import VERIFIED, announce
from rayflight.airflow.links import RayDashboardLink
from rayflight.airflow.operators.base import FlightOperator
from rayflight.states import Stage

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.lifecycle.flight import Flight


class VerifyRayCluster(FlightOperator):
    """Returns the verification matrix; raises VerificationFailed with the rows that failed.

    A retry verifies the next cluster of the attempt when the first one was found bad.

    :param on_fail: ``fail`` this task; ``warn`` and go on; or ``replace`` the failing worker pods and verify again.
        None: as the flight was planned, or as its shape says
    """

    template_fields = (*FlightOperator.template_fields, "on_fail")

    def __init__(self, *, on_fail: str | None = None, timeout: timedelta | str = "10m", **kwargs: Any) -> None:
        kwargs["outlets"] = [*kwargs.get("outlets", ()), VERIFIED]
        super().__init__(timeout=timeout, **kwargs)
        self.on_fail = on_fail

    def the_flight(self) -> Flight:
        """The flight, with what this task was told to do when the verification fails."""
        flight, told = super().the_flight(), forms.on_fail(self.on_fail)
        return replace(flight, on_fail=told) if told else flight

    def execute(self, context: Context) -> Any:
        """Skipped by saying so when the flight asks for no verification."""
        flight = self.the_flight()
        if not flight.verify:
            self.log.info("Verification is switched off for this flight")
            return {"verdict": "not asked for", "checks": []}
        return self.finish(
            context, self.run_step("ensure", flight, self.ensure_arguments(context, Stage.VERIFY), method="resume")
        )

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """Only a verification that passed is announced; the matrix stands in the log already."""
        from rayflight.findings import Check
        from rayflight.verification import blocking

        RayDashboardLink().push(context, result.get("dashboard"))
        failed = blocking(Check(**row) for row in result["checks"])
        metrics.verified(result["checks"], passed=not failed)
        if not failed:
            announce(context, self.the_flight(), result)
        verdict = "failed, and goes on" if failed else "passed"
        return {"verdict": verdict, "cluster": result["cluster"]["name"], "checks": result["checks"]}
