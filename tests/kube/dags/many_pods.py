"""A cluster of sixteen pods without a GPU, as many as a small machine can hold: how fast its logs are collected."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param

from rayflight.airflow import training_run

PARAMS: dict[str, Any] = {
    "image": Param("", type="string"),
    "namespace": Param("", type="string"),
    "workers": Param(15, type="integer"),
    "verify": Param(default=False, type="boolean"),
}
SHAPE: dict[str, Any] = {
    "simulated": True,
    "ray_version": "2.60.0",
    "image": "{{ params.image }}",
    "head": {"cpu": 1, "cpu_request": "100m", "memory": "2Gi", "memory_request": "1200Mi"},
    "groups": [
        {
            "name": "cpu",
            "replicas": 15,
            "cpu": 1,
            "cpu_request": "50m",
            "memory": "1Gi",
            "memory_request": "600Mi",
            # KubeRay's init container asks for 200m of its own: one node of a small machine has room for ten such pods.
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        }
    ],
}

with DAG("many_pods", params=PARAMS, schedule=None, catchup=False):
    training_run(
        cluster=SHAPE,
        resize={"replicas": "{{ params.workers }}"},
        namespace="{{ params.namespace }}",
        job={"entrypoint": "python3 -c 'print(42)'"},
        verify="{{ params.verify }}",
        ready_timeout=timedelta(minutes=10),
    )
