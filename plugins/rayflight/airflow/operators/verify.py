"""``verify``: the four verifications, on the device, in the very worker pods that will train."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rayflight.airflow import metrics
from rayflight.airflow.assets import VERIFIED, announce
from rayflight.airflow.links import RayDashboardLink
from rayflight.airflow.operators.base import FlightOperator
from rayflight.states import Stage

if TYPE_CHECKING:
    from airflow.sdk import Context


class VerifyRayCluster(FlightOperator):
    """Returns the verification matrix; raises VerificationFailed with the rows that failed.

    A retry verifies the next cluster of the attempt when the first one was found bad.
    """

    def __init__(self, *, timeout: timedelta = timedelta(minutes=10), **kwargs: Any) -> None:
        kwargs["outlets"] = [*kwargs.get("outlets", ()), VERIFIED]
        super().__init__(timeout=timeout, **kwargs)

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
        """One log line per row of the matrix."""
        RayDashboardLink().push(context, result.get("dashboard"))
        for row in result["checks"]:
            self.log.info(
                "%-14s level %s  %s: %s (expected %s)",
                row["verdict"],
                row["level"],
                row["subject"],
                row["observed"],
                row["expected"],
            )
        metrics.verified(result["checks"], passed=True)
        announce(context, self.the_flight(), result)
        return {"verdict": "passed", "cluster": result["cluster"]["name"], "checks": result["checks"]}
