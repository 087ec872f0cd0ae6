"""DAGs that leave their cluster behind, each in its own way. Only tests fly these.

Most are suspended or cannot pull their image: a cluster without a running pod is one, too, and costs nothing.
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
SUSPENDED: dict[str, Any] = {
    **CLUSTER,
    "cluster": {"ray_version": "2.60.0", "image": "none", "groups": [{"name": "gpu"}], "extra": {"suspend": True}},
}
MANUAL: dict[str, Any] = {"params": PARAMS, "schedule": None, "catchup": False}

with DAG("never_torn_down", **MANUAL):
    CreateRayCluster(task_id="create", **SUSPENDED)

with DAG("timed_out", dagrun_timeout=timedelta(seconds=15), **MANUAL):
    training_run(job=JOB, **SUSPENDED)

with DAG("waiting", **MANUAL):
    training_run(job=JOB, **SUSPENDED)

with DAG("kept_on_failure", **MANUAL):
    training_run(job=JOB, teardown={"mode": "keep_on_failure", "keep_for": "2h"}, retries=0, **CLUSTER)

with DAG("deleted_on_success", **MANUAL):
    training_run(job=JOB, teardown="on_success", retries=0, **CLUSTER)

with DAG("trained_without_a_trigger", **MANUAL):
    created = CreateRayCluster(task_id="create", **CLUSTER)
    ready = RayClusterReadySensor(task_id="ready", flight=created.output)
    ready >> SubmitRayJob(task_id="train", flight=created.output, job=JOB, deferrable=False)
