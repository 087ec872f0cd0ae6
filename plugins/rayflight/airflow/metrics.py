"""The metrics of Rayflight, by name, through Airflow's own metrics interface (OpenTelemetry, StatsD). Decides nothing.

Which exporter there is, and whether there is one, is Airflow's configuration (``[metrics]``). docs/metrics.md is made
from the table below. Names and tags are stable: dashboards and rules are written against them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rayflight import errors

if TYPE_CHECKING:
    from airflow.sdk import Context

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. ``kind`` counter, or timing (milliseconds on the wire, as Airflow's own)."""

    name: str
    kind: str
    unit: str
    tags: tuple[str, ...]
    meaning: str

    @property
    def prometheus(self) -> str:
        """Its name behind an OpenTelemetry collector's Prometheus exporter, with Airflow's default prefix."""
        suffix = "_total" if self.kind == "counter" else "_milliseconds"
        return f"airflow_{self.name.replace('.', '_')}{suffix}"


CHECKS = Metric(
    name="rayflight.verification.checks",
    kind="counter",
    unit="rows",
    tags=("check", "verdict"),
    meaning="rows of the verification matrix, by check and verdict",
)
VERIFICATIONS = Metric(
    name="rayflight.verification.runs",
    kind="counter",
    unit="verifications",
    tags=("result",),
    meaning="verifications that passed or failed",
)
READY = Metric(
    name="rayflight.cluster.ready_time",
    kind="timing",
    unit="ms",
    tags=("dag_id",),
    meaning="from the creation of the RayCluster until every pod is an ALIVE Ray node",
)
QUEUE = Metric(
    name="rayflight.cluster.queue_time",
    kind="timing",
    unit="ms",
    tags=("dag_id",),
    meaning="the part of it until the last pod got its Kubernetes node: quota, queue and capacity",
)
HELD = Metric(
    name="rayflight.gpu.held_seconds",
    kind="counter",
    unit="GPU s",
    tags=("dag_id", "simulated"),
    meaning="GPU-seconds between a pod's scheduling and its end, over all clusters of a flight",
)
WASTED = Metric(
    name="rayflight.gpu.wasted_seconds",
    kind="counter",
    unit="GPU s",
    tags=("dag_id", "simulated"),
    meaning="the part of them in which no training ran that then succeeded",
)
JOBS = Metric(
    name="rayflight.job.outcomes",
    kind="counter",
    unit="trainings",
    tags=("outcome", "cause"),
    meaning="trainings that succeeded or failed, by the diagnosed cause",
)
FAILURES = Metric(
    name="rayflight.task.failures",
    kind="counter",
    unit="tries",
    tags=("stage", "cause"),
    meaning="failed tries of the tasks of a flight, by the diagnosed cause",
)
ALERTS = Metric(
    name="rayflight.alerts",
    kind="counter",
    unit="messages",
    tags=("channel", "result"),
    meaning="alerts sent, broken (the channel did not take it), or repeated (said already within the window)",
)

METRICS = (CHECKS, VERIFICATIONS, READY, QUEUE, HELD, WASTED, JOBS, FAILURES, ALERTS)


def count(metric: Metric, amount: float = 1, **tags: str) -> None:
    """Add to a counter."""
    _send(metric, "incr", round(amount), tags)


def took(metric: Metric, seconds: float, **tags: str) -> None:
    """Record a time."""
    _send(metric, "timing", timedelta(seconds=seconds), tags)


def verified(checks: Iterable[Mapping[str, Any]], *, passed: bool) -> None:
    """Every row of a matrix, and its result."""
    for row in checks:
        count(CHECKS, check=str(row["id"]), verdict=str(row["verdict"]).replace(" ", "_"))
    count(VERIFICATIONS, result="passed" if passed else "failed")


def failed(error: errors.RayflightError, *, stage: str, training: bool) -> None:
    """A try that failed, by its cause."""
    if isinstance(error, errors.VerificationFailed):
        verified(({"id": check.id, "verdict": check.verdict} for check in error.checks), passed=False)
    cause = cause_of(error)
    count(FAILURES, stage=stage, cause=cause)
    if training and isinstance(error, errors.Diagnosed) and not isinstance(error, errors.VerificationFailed):
        count(JOBS, outcome="failed", cause=cause)


def cause_of(error: BaseException) -> str:
    """The diagnosed cause's id, or the kind of the error."""
    if isinstance(error, errors.Diagnosed) and error.diagnosis.cause:
        return error.diagnosis.cause.id
    return "unknown" if isinstance(error, errors.Diagnosed) else type(error).__name__


def landed(context: Context, landing: Mapping[str, Any], *, simulated: bool, useful: float) -> None:
    """What a teardown proved. ``useful`` GPU-seconds were spent in trainings that succeeded."""
    tags = {"dag_id": context["ti"].dag_id, "simulated": str(simulated).lower()}
    held = float(landing["gpu_seconds"])
    count(HELD, held, **tags)
    count(WASTED, max(0.0, held - useful), **tags)


def became_ready(context: Context, times: Mapping[str, float]) -> None:
    """How long a cluster took, where the picture of it says."""
    for metric, key in ((READY, "ready"), (QUEUE, "queued")):
        if key in times:
            took(metric, times[key], dag_id=context["ti"].dag_id)


def _send(metric: Metric, verb: str, value: Any, tags: Mapping[str, str]) -> None:
    if set(tags) != set(metric.tags):
        raise ValueError(f"{metric.name} has the tags {metric.tags}, not {tuple(tags)}")
    try:
        getattr(_stats(), verb)(metric.name, value, tags=dict(tags))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with an exporter, it must not fail a training
        _log.warning("Metric %s was not sent: %s", metric.name, error)


def _stats() -> Any:
    """Airflow has two copies of its interface; each process initialises the one that it uses itself.

    Task processes use the SDK's; triggerer and DAG processor the core's (tried on 3.3.2: the other one stays silent).
    """
    if any(name in sys.modules for name in ("airflow.jobs.triggerer_job_runner", "airflow.dag_processing.manager")):
        from airflow.observability import stats as core

        return core
    from airflow.sdk.observability import stats

    return stats
