"""Operators without training_run and without PlanFlight; and training_run twice in one DAG. Only tests fly these."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from rayflight.airflow import (
    CollectRayLogs,
    CreateRayCluster,
    DeleteRayCluster,
    RayClusterGoneSensor,
    RayClusterReadySensor,
    RayJobFinishedSensor,
    SubmitRayJob,
    VerifyRayCluster,
    training_run,
)
from rayflight.specs import JobSpec, TeardownPolicy

TRAINING = Path(__file__).parents[3] / "include" / "training"
PARAMS: dict[str, Any] = {
    "image": Param(None, type=["null", "string"]),
    "namespace": Param(None, type=["null", "string"]),
    "workers": Param(1, type="integer"),
    "verify": Param(default=True, type="boolean"),
    "command": Param("python3 smoke.py", type="string"),
    "conn": Param("kubernetes_default", type="string"),
}
CLUSTER: dict[str, Any] = {
    "cluster": "testbed-2x1",
    "resize": {"replicas": "{{ params.workers }}", "image": "{{ params.image or '' }}"},
    "namespace": "{{ params.namespace or '' }}",
    "verify": "{{ params.verify }}",
}
SMOKE = {"entrypoint": "{{ params.command }}", "working_dir": str(TRAINING)}


def alone(deferrable: bool) -> None:
    """Create, wait, verify, two trainings on one cluster, collect, delete, gone."""
    common: dict[str, Any] = {"deferrable": deferrable, "retries": 0, "conn_id": "{{ params.conn }}"}
    created = CreateRayCluster(task_id="create", **CLUSTER, **common)
    common["flight"] = created.output
    ready = RayClusterReadySensor(task_id="ready", timeout=timedelta(minutes=4), **common)
    verified = VerifyRayCluster(task_id="verified", **common)
    first = SubmitRayJob(task_id="first", job=JobSpec.parse(SMOKE), **common)
    second = SubmitRayJob(task_id="second", job={**SMOKE, "env": {"WHICH": "second"}}, wait=False, **common)
    followed = RayJobFinishedSensor(task_id="followed", submission=second.output, **common)
    collected = CollectRayLogs(task_id="collected", trigger_rule="all_done", **common)
    deleted = DeleteRayCluster(task_id="deleted", trigger_rule="all_done", **common)
    gone = RayClusterGoneSensor(task_id="gone", **common)
    ready >> verified >> first >> second >> followed >> collected >> deleted >> gone


with DAG("alone", params=PARAMS, schedule=None, catchup=False):
    alone(deferrable=False)

with DAG("alone_deferred", params=PARAMS, schedule=None, catchup=False):
    alone(deferrable=True)

with DAG("twice", params=PARAMS, schedule=None, catchup=False):
    for name in ("one", "two"):
        training_run(name, job=SMOKE, teardown=TeardownPolicy(), **CLUSTER)
