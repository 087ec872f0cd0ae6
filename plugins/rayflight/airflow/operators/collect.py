"""``collect_logs``: everything of both layers into the archive, before anything is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rayflight.airflow.links import ArchiveLink
from rayflight.airflow.operators.base import FlightOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class CollectRayLogs(FlightOperator):
    """Runs after success and after failure; never fails the run because one log is missing (it names the gap)."""

    operator_extra_links = (ArchiveLink(),)

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns where the archive is, how much is in it, and what is missing."""
        from rayflight.lifecycle.collect import collect

        flight = self.the_flight()
        collected = self.run_async(lambda tools: collect(tools, flight), flight)
        return collected.to_dict()
