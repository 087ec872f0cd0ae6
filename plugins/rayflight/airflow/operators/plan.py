"""``plan``: validates everything, fixes the attempt and all names, opens the archive. Touches no cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayflight.airflow import access, forms, literals, settings
from rayflight.airflow.links import ArchiveLink
from rayflight.airflow.operators.base import FlightOperator, attempt, plain

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context, XComArg

    from rayflight.lifecycle.flight import Flight
    from rayflight.specs import ClusterSpec, JobSpec, TeardownPolicy

    Shape = ClusterSpec | str | Path | Mapping[str, Any] | XComArg
    JobInput = JobSpec | Mapping[str, Any] | XComArg


class PlanFlight(FlightOperator):
    """Returns the flight that all other operators take.

    :param cluster: a ClusterSpec, the name or path of a shape in include/clusters, or a dict of its fields
    :param job: a JobSpec or a dict of its fields; None for a flight that trains nothing
    :param resize: what a trigger form changes of the shape: replicas, gpus (per worker pod), image, group
    :param at_once: how many clusters of this dag run may exist at once (a mapped sweep)
    :param on_fail: what a failed verification leads to: ``fail``, ``warn`` or ``replace``; empty: what the shape says
    """

    operator_extra_links: Collection[BaseOperatorLink] = (ArchiveLink(),)
    template_fields: Sequence[str] = (
        "cluster",
        "job",
        "resize",
        "namespace",
        "conn_id",
        "archive",
        "teardown",
        "verify",
        "at_once",
        "on_fail",
    )

    def __init__(
        self,
        *,
        cluster: Shape,
        job: JobInput | None = None,
        resize: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        teardown: TeardownPolicy | Mapping[str, Any] | str = "always",
        verify: bool | str = True,
        archive: str | None = None,
        at_once: int | str | None = None,
        on_fail: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        literals.check(self.task_id, cluster=cluster, job=job, teardown=teardown, resize=resize)
        self.cluster, self.job, self.resize = plain(cluster), plain(job), resize
        self.on_fail = on_fail
        self.namespace, self.teardown, self.verify = namespace, plain(teardown), verify
        self.archive, self.at_once = archive, at_once

    def execute(self, context: Context) -> dict[str, Any]:
        """Raises InvalidSpec in one sentence for whatever is wrong with the input."""
        flight = self.make(context)
        for warning in flight.cluster_spec.warnings():
            self.log.warning("Likely to go wrong: %s", warning)
        archive = access.archive(flight.archive)
        asyncio.run(archive.open({"flight": flight.to_dict(), "cluster": flight.owner.cluster_name}))
        self.log.info(
            "Attempt %d flies as cluster %s/%s; archive: %s",
            flight.owner.attempt,
            flight.namespace,
            flight.owner.cluster_name,
            archive.url,
        )
        self.flight = as_xcom(flight)
        return self.flight

    def make(self, context: Context) -> Flight:
        """The flight of this task's context."""
        from rayflight.labels import Owner
        from rayflight.lifecycle.flight import Flight, Interval
        from rayflight.lifecycle.turns import queued
        from rayflight.specs import JobSpec, TeardownPolicy, load_cluster, resized

        spec = resized(load_cluster(self.cluster), **forms.changes(self.resize))
        job = None if not self.job else JobSpec.parse(forms.job(self.job), which=f"job of task {self.task_id}")
        if job is not None:
            require_files(job)
            spec = spec.with_storage(job.storage)
        at_once = forms.count(self.at_once, field="at_once")
        queued(spec, at_once)  # refused here, not when it is created
        ti, dag_run = context["ti"], context["dag_run"]
        owner = Owner(
            airflow=settings.instance() or "unnamed",
            dag_id=ti.dag_id,
            run_id=ti.run_id,
            group=self.task_group.group_id if self.task_group and self.task_group.group_id else self.task_id,
            map_index=ti.map_index if ti.map_index is not None else -1,
            attempt=attempt(context, self.retries or 0),
        )
        namespace = access.access(self.conn_id).allowed(self.namespace)
        return Flight(
            owner=owner,
            namespace=namespace,
            spec=spec.to_dict(),
            job=job.to_dict() if job else None,
            teardown=TeardownPolicy.parse(self.teardown, which=f"teardown of task {self.task_id}").to_dict(),
            verify=forms.truth(self.verify, field="verify"),
            archive=access.archive_url(self.archive or self._connections_archive() or settings.archive_base(), owner),
            at_once=at_once,
            on_fail=forms.on_fail(self.on_fail),
            interval=Interval(
                logical_date=_time(dag_run.logical_date),
                start=_time(dag_run.data_interval_start),
                end=_time(dag_run.data_interval_end),
            ),
        )

    def _connections_archive(self) -> str | None:
        """A team's connection can name the team's archive."""
        named = access.extras(self.conn_id).get("archive")
        return None if named is None else str(named)


def as_xcom(flight: Flight) -> dict[str, Any]:
    """The flight with what people look for first."""
    return {**flight.to_dict(), "cluster": flight.owner.cluster_name, "attempt": flight.owner.attempt}


def require_files(job: JobSpec) -> None:
    """Refuse a working_dir that could not be sent, before anything is created."""
    from rayflight.rayjobs import packages

    job.require_files()
    if job.working_dir is not None:
        packages.check(job.working_dir)


def _time(value: datetime | None) -> str:
    return value.isoformat() if value else ""
