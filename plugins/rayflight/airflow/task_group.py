"""``training_run``: one call that wires a whole flight, visible task by task in the grid."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, TaskGroup

from rayflight.airflow import access
from rayflight.airflow.operators import (
    CollectRayLogs,
    CreateRayCluster,
    DeleteRayCluster,
    PlanFlight,
    SubmitRayJob,
    VerifyRayCluster,
)
from rayflight.airflow.operators.base import FlightOperator
from rayflight.airflow.sensors import RayClusterReadySensor

if TYPE_CHECKING:
    from rayflight.airflow.operators.plan import JobInput, Shape
    from rayflight.specs import TeardownPolicy


_LANDING_RETRIES = 2  # of the teardowns at least: GPUs are given back also where nothing else is tried twice


def training_run(  # noqa: PLR0913 - one call wires a whole flight
    group_id: str = "flight",
    *,
    cluster: Shape,
    job: JobInput | None,
    resize: Mapping[str, Any] | None = None,
    namespace: str | None = None,
    conn_id: str = access.DEFAULT_CONNECTION,
    verify: bool | str = True,
    teardown: TeardownPolicy | Mapping[str, Any] | str = "always",
    archive: str | None = None,
    at_once: int | str | None = None,
    on_fail: str | None = None,
    retries: int = 2,
    ready_timeout: timedelta | str = "30m",
    **task_args: Any,
) -> TaskGroup:
    """plan → provision → wait_ready → verify → train → collect_logs → tear_down, as a TaskGroup.

    plan, provision, wait_ready and verify are setups and the last two teardowns of all four, so a failure anywhere
    fails the run and still tears down, and clearing ``train`` clears what it needs. Usable several times in a DAG and
    inside a mapped task group. ``job=None`` flies without training (a check of a GPU pool). ``task_args`` (deferrable,
    queue, callbacks, …) go to every task; ``pool`` and ``pool_slots`` to all but the teardowns, which give GPUs back.
    """
    _refuse_unknown(task_args)
    common = {
        "conn_id": conn_id,
        "retries": retries,
        "retry_delay": timedelta(seconds=10),
        "weight_rule": "upstream",  # who already holds a cluster goes before who has none yet
        **task_args,
    }
    # A busy Airflow loses task processes without a word in their logs: that must not leave a cluster behind.
    again = max(retries, _LANDING_RETRIES)
    landing = {**{key: it for key, it in common.items() if key not in ("pool", "pool_slots")}, "retries": again}
    with TaskGroup(group_id) as group:
        plan = PlanFlight(
            task_id="plan",
            cluster=cluster,
            job=job,
            resize=resize,
            namespace=namespace,
            verify=verify,
            teardown=teardown,
            archive=archive,
            at_once=at_once,
            on_fail=on_fail,
            **common,
        )
        flight: Any = plan.output
        provision = CreateRayCluster(task_id="provision", flight=flight, **common)
        ready = RayClusterReadySensor(task_id="wait_ready", flight=flight, timeout=ready_timeout, **common)
        verified = VerifyRayCluster(task_id="verify", flight=flight, **common)
        collected = CollectRayLogs(task_id="collect_logs", flight=flight, **landing)
        landed = DeleteRayCluster(task_id="tear_down", flight=flight, **landing)
        setups = [plan, provision, ready, verified]
        for task in setups:
            task.as_setup()  # type: ignore[no-untyped-call]
        provision >> ready >> verified
        if job is not None:
            train = SubmitRayJob(task_id="train", flight=flight, ready_timeout=ready_timeout, **common)
            verified >> train >> collected
        verified >> collected >> landed
        collected.as_teardown(setups=setups)
        landed.as_teardown(setups=setups, on_failure_fail_dagrun=True)
    return group


def _refuse_unknown(task_args: Mapping[str, Any]) -> None:
    """By the name of what was called: the operators would refuse it as well, each for a task that nobody wrote."""
    own = inspect.signature(training_run).parameters
    known = {*own, *inspect.signature(FlightOperator).parameters, *inspect.signature(BaseOperator).parameters}
    # Of one task alone, or set by the group.
    known -= {"task_args", "kwargs", "self", "task_id", "flight", "task_group", "dag"}
    for name in task_args:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"training_run() got an unexpected keyword argument {name!r}{hint}")
