"""Buttons on a task: the Ray dashboard and the run's archive. Read from XCom, computed nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.bases.operatorlink import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey


class StoredLink(BaseOperatorLink):
    """A link whose URL the task pushed to XCom as soon as it knew it."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The stored URL, or nothing yet."""
        from airflow.sdk.execution_time.xcom import XCom

        return str(XCom.get_value(ti_key=ti_key, key=self.stored_key) or "")

    @property
    def stored_key(self) -> str:
        """The XCom key under which ``push`` stores the URL."""
        raise NotImplementedError

    def push(self, context: Context, url: str | None) -> None:
        """Make the button work."""
        if url:
            context["ti"].xcom_push(key=self.stored_key, value=url)


class RayDashboardLink(StoredLink):
    """Opens the Ray dashboard."""

    name = "Ray dashboard"
    stored_key = "rayflight_dashboard"


class ArchiveLink(StoredLink):
    """Opens the archive of the run."""

    name = "Archive"
    stored_key = "rayflight_archive"
