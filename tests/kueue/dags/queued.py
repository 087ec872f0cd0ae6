"""A flight through Kueue: queue, priority and size are what the test says."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from rayflight.airflow import training_run

TRAINING = Path(__file__).parents[3] / "include" / "training"
PARAMS: dict[str, Any] = {
    "image": Param("", type="string"),
    "namespace": Param("", type="string"),
    "workers": Param(1, type="integer"),
    "gpus_per_worker": Param(1, type="integer"),
    "queue": Param("gpus", type="string"),
    "priority": Param("low", type="string"),
    "claim": Param("", type="string"),
    "script_args": Param("", type="string"),
    "verify": Param(default=False, type="boolean"),
}
GATE = {"name": "tests.example.com/hold"}
SHAPE: dict[str, Any] = {
    "simulated": True,
    "ray_version": "2.60.0",
    "image": "{{ params.image }}",
    "queue": "{{ params.queue }}",
    "labels": {"kueue.x-k8s.io/priority-class": "{{ params.priority }}"},
    "head": {"cpu": 1, "cpu_request": "100m", "memory": "2Gi", "memory_request": "1200Mi"},
    "groups": [
        {
            "name": "gpu",
            "replicas": 1,
            "gpus": 1,
            "cpu": 1,
            "cpu_request": "200m",
            "memory": "2Gi",
            "memory_request": "1200Mi",
            "node_selector": {"nvidia.com/gpu.present": "true"},
        }
    ],
}

# Pods that nobody may schedule: they are never ready, and go at once.
GATED = {**SHAPE, "groups": [{**SHAPE["groups"][0], "extra": {"template": {"spec": {"schedulingGates": [GATE]}}}}]}


def fly(shape: dict[str, Any]) -> None:
    """The flight of both."""
    training_run(
        cluster=shape,
        resize={"replicas": "{{ params.workers }}", "gpus": "{{ params.gpus_per_worker }}"},
        namespace="{{ params.namespace }}",
        job={
            "entrypoint": "python3 train.py --workers {{ params.workers }}"
            " --gpus-per-worker {{ params.gpus_per_worker }} --accuracy 0 {{ params.script_args }}",
            "working_dir": str(TRAINING),
            "storage": "{{ params.claim }}",
        },
        verify="{{ params.verify }}",
        ready_timeout=timedelta(minutes=6),
    )


with DAG("queued", params=PARAMS, schedule=None, catchup=False):
    fly(SHAPE)

with DAG("queued_gated", params=PARAMS, schedule=None, catchup=False):
    fly(GATED)
