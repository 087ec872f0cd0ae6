"""DAGs that leave their cluster behind, each in its own way. Only tests fly these."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param

from rayflight.airflow import CreateRayCluster, RayClusterReadySensor, SubmitRayJob, training_run

PARAMS: dict[str, Any] = {
    "image": Param(None, type=["null", "string"]),
    "namespace": Param(None, type=["null", "string"]),
    "workers": Param(0, type="integer"),  # a head alone is a cluster, too
    "verify": Param(default=False, type="boolean"),
    "command": Param("sleep 600", type="string"),
    "keep_for": Param("2h", type="string"),
}
CLUSTER: dict[str, Any] = {
    "cluster": "testbed-2x1",
    "resize": {"replicas": "{{ params.workers }}", "image": "{{ params.image or '' }}"},
    "namespace": "{{ params.namespace or '' }}",
    "verify": False,
}
JOB = {"entrypoint": "{{ params.command }}"}

with DAG("never_torn_down", params=PARAMS, schedule=None, catchup=False):
    created = CreateRayCluster(task_id="create", **CLUSTER)
    ready = RayClusterReadySensor(task_id="ready", flight=created.output)
    ready >> SubmitRayJob(task_id="train", flight=created.output, job=JOB, deferrable=False)

with DAG("timed_out", params=PARAMS, schedule=None, catchup=False, dagrun_timeout=timedelta(seconds=75)):
    training_run(job=JOB, **CLUSTER)

with DAG("kept_on_failure", params=PARAMS, schedule=None, catchup=False):
    keep = {"mode": "keep_on_failure", "keep_for": "{{ params.keep_for }}"}
    training_run(job=JOB, teardown=keep, retries=0, **CLUSTER)

with DAG("deleted_on_success", params=PARAMS, schedule=None, catchup=False):
    training_run(job=JOB, teardown="on_success", retries=0, **CLUSTER)
