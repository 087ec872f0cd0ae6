"""DAGs that leave their cluster behind, each in its own way. Only tests fly these.

No pod of them needs to run: an image that cannot be pulled is a cluster, too, and costs the machine nothing.
"""

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
}
CLUSTER: dict[str, Any] = {
    "cluster": "testbed-2x1",
    "resize": {"replicas": "{{ params.workers }}", "image": "{{ params.image or '' }}"},
    "namespace": "{{ params.namespace or '' }}",
    "verify": False,
}
JOB = {"entrypoint": "{{ params.command }}"}
MANUAL: dict[str, Any] = {"params": PARAMS, "schedule": None, "catchup": False}

with DAG("never_torn_down", **MANUAL):
    CreateRayCluster(task_id="create", **CLUSTER)

with DAG("timed_out", dagrun_timeout=timedelta(seconds=15), **MANUAL):
    training_run(job=JOB, **CLUSTER)

with DAG("kept_on_failure", **MANUAL):
    training_run(job=JOB, teardown={"mode": "keep_on_failure", "keep_for": "2h"}, retries=0, **CLUSTER)

with DAG("deleted_on_success", **MANUAL):
    training_run(job=JOB, teardown="on_success", retries=0, **CLUSTER)

with DAG("trained_without_a_trigger", **MANUAL):
    created = CreateRayCluster(task_id="create", **CLUSTER)
    ready = RayClusterReadySensor(task_id="ready", flight=created.output)
    ready >> SubmitRayJob(task_id="train", flight=created.output, job=JOB, deferrable=False)
