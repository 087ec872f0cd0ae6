"""``train``: submits exactly once, follows status and logs to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any

from rayflight.airflow import access, forms, literals, metrics
from rayflight.airflow.intent import ended_by_a_person, stop
from rayflight.airflow.links import RayDashboardLink
from rayflight.airflow.operators.base import FlightOperator, plain
from rayflight.airflow.operators.plan import require_files
from rayflight.airflow.telling import listeners
from rayflight.errors import InvalidSpec
from rayflight.states import Stage

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.airflow.operators.plan import JobInput
    from rayflight.backends.base import ClusterRef
    from rayflight.lifecycle.flight import Flight, Tools
    from rayflight.lifecycle.submission import Submitted
    from rayflight.specs import JobSpec


_KILL_SECONDS = 4  # Airflow kills the process for good after 5


class SubmitRayJob(FlightOperator):
    """Trains. ``job`` is only needed where the flight has none, or for a second training on the same cluster.

    Follows the training to its end, unless ``wait=False``: then RayJobFinishedSensor can do that.
    A retry whose cluster is gone or lost its head builds the next one by itself (decision 3); ``ready_timeout`` bounds
    that. ``timeout`` bounds the training (the job's own ``timeout`` wins); None waits without end.
    """

    template_fields = (*FlightOperator.template_fields, "job")
    trains = True

    def __init__(
        self,
        *,
        job: JobInput | None = None,
        timeout: timedelta | str | None = None,
        ready_timeout: timedelta | str = "30m",
        wait: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        literals.check(self.task_id, job=job)
        self.job, self.wait = plain(job), wait
        self.followed: Mapping[str, Any] | None = None  # what this process follows now, for on_kill
        self.train_timeout = None if timeout is None else forms.span(timeout, field="timeout")
        self.ready_timeout = forms.span(ready_timeout, field="ready_timeout")

    def execute(self, context: Context) -> Any:
        """Submit at once where the cluster is fit; else prepare the next one first."""
        flight, ti = self.the_flight(), context["ti"]
        self.the_job(flight)  # refused before anything is made for it
        ref = self.run_async(lambda tools: _usable(tools, flight, ti.try_number), flight)
        if ref is not None:
            return self._train(context, flight, ref)
        arguments = self.ensure_arguments(context, Stage.TRAIN, self.ready_timeout)
        return self._prepared(context, self.run_step("ensure", flight, arguments, method="resume_prepared"))

    def resume_prepared(self, context: Context, event: dict[str, Any]) -> Any:
        """The next cluster is there and verified."""
        return self._prepared(context, self.outcome(event))

    def _prepared(self, context: Context, result: dict[str, Any]) -> Any:
        from rayflight.backends.base import ClusterRef

        return self._train(context, self.the_flight(), ClusterRef.from_dict(result["cluster"]))

    def the_job(self, flight: Flight) -> JobSpec:
        """This task's own job, or the flight's. Raises InvalidSpec when there is none, or it cannot run there."""
        from rayflight.specs import JobSpec

        which = f"job of task {self.task_id}"
        job = JobSpec.parse(forms.job(self.job), which=which) if self.job else flight.job_spec
        if job is None:
            why, step = "neither the flight nor the task has a job", "pass job="
            raise InvalidSpec("Nothing to train in task", which=self.task_id, why=why, next_step=step)
        require_files(job)
        if job.storage not in (None, flight.cluster_spec.storage):
            why = "the cluster was made without it"
            step = "name it in the shape, or in the job of the task that plans the cluster"
            raise InvalidSpec("Refused", which=f"storage of the {which}", why=why, next_step=step)
        return job

    def _train(self, context: Context, flight: Flight, ref: ClusterRef) -> Any:
        job = self.the_job(flight)
        flight = replace(flight, owner=ref.owner) if ref.owner else flight
        ti = context["ti"]
        tries = {"first_try": max(ti.max_tries - (self.retries or 0) + 1, 1), "try_number": ti.try_number}
        submitted, url = self.run_async(
            lambda tools: _submit(tools, flight, ref, job, task=_in_full(ti), **tries), flight
        )
        RayDashboardLink().push(context, url)
        if not self.wait:
            return {"submission_id": submitted.id, "cluster": ref.to_dict()}
        limit = job.timeout or self.train_timeout
        arguments = {
            "cluster": ref.to_dict(),
            "submission_id": submitted.id,
            "session": submitted.session,
            "deadline": self.deadline(limit) if limit else None,
            **watching(job),
            **listeners(self, context),
        }
        self.followed = {**arguments, "ti": ti}
        return self.finish(context, self.run_step("follow", flight, arguments, method="resume", stop_on_kill=True))

    def finish(self, context: Context, result: dict[str, Any]) -> Any:
        """A training that succeeded."""
        metrics.count(metrics.JOBS, outcome="succeeded", cause="none")
        return result

    def on_kill(self) -> None:
        """Without deferral: stop the submission if a person ended this task, not when its worker is shut down."""
        if self.followed is None:
            return
        # The signal came in the middle of this thread's event loop, so the work is done in another.
        stopping = Thread(target=self._stop, kwargs=dict(self.followed), daemon=True)
        stopping.start()
        stopping.join(_KILL_SECONDS)

    def _stop(self, *, ti: Any, cluster: Mapping[str, Any], submission_id: str, **_: Any) -> None:
        if ended_by_a_person(ti, at_work="running", say=self.log.info):
            asyncio.run(stop(access.access(self.conn_id), cluster, submission_id, self.log.info))


def watching(job: JobSpec) -> dict[str, Any]:
    """What the step that follows a submission is told about silence."""
    return {
        "on_hang": str(job.on_hang),
        "hang_after": job.hang_after.total_seconds() if job.hang_after else None,
    }


def _in_full(ti: Any) -> str:
    """Mapped tasks may share a cluster: each has submissions of its own."""
    unmapped = ti.map_index is None or ti.map_index < 0
    return str(ti.task_id) if unmapped else f"{ti.task_id}[{ti.map_index}]"


async def _usable(tools: Tools, flight: Flight, try_number: int) -> ClusterRef | None:
    from rayflight.lifecycle.ensure import usable_cluster

    return await usable_cluster(tools, flight, Stage.TRAIN, try_number=try_number)


async def _submit(
    tools: Tools, flight: Flight, ref: ClusterRef, job: JobSpec, *, task: str, first_try: int, try_number: int
) -> tuple[Submitted, str | None]:
    from rayflight.lifecycle.submission import submit_once

    submitted = await submit_once(tools, flight, ref, job, task=task, first_try=first_try, try_number=try_number)
    return submitted, tools.backend.dashboard_url(ref)
