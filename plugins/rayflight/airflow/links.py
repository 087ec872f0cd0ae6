"""Buttons on a task: the Ray dashboard and the run's archive. Read from what the task knows, computed nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow.sdk.bases.operatorlink import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey


class RayDashboardLink(BaseOperatorLink):
    """Opens the Ray dashboard. The task pushes its URL as soon as it knows it: the button works while it runs."""

    name = "Ray dashboard"
    xcom_key = "rayflight_dashboard"  # where Airflow looks when somebody presses the button

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """What was pushed, or nothing. Airflow stores it again at the end of the task."""
        from airflow.sdk.execution_time.xcom import XCom

        return str(XCom.get_value(ti_key=ti_key, key=self.xcom_key) or "")

    def push(self, context: Context, url: str | None) -> None:
        """Make the button work now."""
        if url:
            context["ti"].xcom_push(key=self.xcom_key, value=url)


class ArchiveLink(BaseOperatorLink):
    """Opens the archive of the run."""

    name = "Archive"
    xcom_key = "rayflight_archive"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """It stands in the flight that the task was given, or that it planned."""
        flight = getattr(operator, "flight", None)
        return str(flight.get("archive", "")) if isinstance(flight, Mapping) else ""
