"""Sensors of a flight: ready, finished, gone. All deferrable, served by the shared watches; usable alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rayflight.airflow import forms, metrics
from rayflight.airflow.links import ArchiveLink, RayDashboardLink
from rayflight.airflow.operators.base import FlightOperator
from rayflight.airflow.operators.submit import watching
from rayflight.errors import InvalidSpec
from rayflight.states import Stage

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from rayflight.lifecycle.flight import Tools


class RayClusterReadySensor(FlightOperator):
    """Waits until every desired pod is an ALIVE Ray node in one session; fails within seconds on what cannot heal."""

    def execute(self, context: Context) -> Any:
        """Returns the cluster's name, uid and session-bearing annotations."""
        arguments = self.ensure_arguments(context, Stage.WAIT_READY)
        return self.finish(context, self.run_step("ensure", self.the_flight(), arguments, method="resume"))

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """The cluster as it stands in the world."""
        metrics.became_ready(context, result.get("times", {}))
        RayDashboardLink().push(context, result.get("dashboard"))
        return result["cluster"]


class RayJobFinishedSensor(FlightOperator):
    """Follows a submission that another task (or somebody else) made.

    :param submission: what SubmitRayJob returned, or a submission id
    :param timeout: how long to follow it at most; None: to its end
    """

    template_fields = (*FlightOperator.template_fields, "submission")
    trains = True

    def __init__(
        self, *, submission: Mapping[str, Any] | XComArg | str, timeout: timedelta | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.submission = submission
        self.follow_timeout = None if timeout is None else forms.span(timeout, field="timeout")

    def execute(self, context: Context) -> Any:
        """Returns on SUCCEEDED; raises JobFailed with its diagnosis."""
        flight = self.the_flight()
        given = self.submission.get("submission_id") if isinstance(self.submission, Mapping) else self.submission
        if not (given and isinstance(given, str)):
            why, step = f"submission is {self.submission!r}", "pass what SubmitRayJob returned, or a submission id"
            raise InvalidSpec("No submission was named for task", which=self.task_id, why=why, next_step=step)
        name = given

        async def arguments(tools: Tools) -> tuple[dict[str, Any], str | None]:
            from rayflight.lifecycle.ensure import require_cluster

            ref = await require_cluster(tools, flight)
            _, session = await tools.backend.jobs(ref).version()
            deadline = self.deadline(self.follow_timeout) if self.follow_timeout else None
            known = {"cluster": ref.to_dict(), "submission_id": name, "session": session, "deadline": deadline}
            job = flight.job_spec  # whoever submitted it, a hang is treated as the flight's job says
            known |= watching(job) if job else {}
            return known, tools.backend.dashboard_url(ref)

        known, url = self.run_async(arguments, flight)
        RayDashboardLink().push(context, url)
        return self.finish(context, self.run_step("follow", flight, known, method="resume"))

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """A training that succeeded."""
        metrics.count(metrics.JOBS, outcome="succeeded", cause="none")
        return result


class RayClusterGoneSensor(FlightOperator):
    """Waits until nothing of the flight's clusters is left. Deletes nothing."""

    operator_extra_links = (ArchiveLink(),)

    def execute(self, context: Context) -> Any:
        """Raises TeardownIncomplete at the deadline, naming what is left."""
        return self.finish(
            context,
            self.run_step("gone", self.the_flight(), {"deadline": self.deadline()}, method="resume"),
        )
