"""DAGs that only the tests fly: one whose API server misbehaves, and a mapped sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task_group

from rayflight.airflow import training_run

TRAINING = Path(__file__).parents[3] / "include" / "training"
PARAMS: dict[str, Any] = {
    "image": Param(None, type=["null", "string"]),
    "namespace": Param(None, type=["null", "string"]),
    "workers": Param(1, type="integer"),
    "script_args": Param("", type="string"),
    "verify": Param(default=False, type="boolean"),
}
COMMON: dict[str, Any] = {
    "cluster": "testbed-2x1",
    "resize": {"replicas": "{{ params.workers }}", "image": "{{ params.image or '' }}"},
    "namespace": "{{ params.namespace or '' }}",
    "verify": "{{ params.verify }}",
}


def job(arguments: str) -> dict[str, str]:
    """The example training with arguments of the test's own."""
    entrypoint = f"python3 ddp.py --workers {{{{ params.workers }}}} --gpus-per-worker 1 {arguments}"
    return {"entrypoint": entrypoint, "working_dir": str(TRAINING)}


with DAG("train_flaky", params=PARAMS, schedule=None, catchup=False):
    training_run(conn_id="kubernetes_flaky", job=job("{{ params.script_args }}"), **COMMON)

with DAG("sweep", params=PARAMS, schedule=None, catchup=False):

    @task_group
    def trial(epochs: int) -> None:
        """One flight of the sweep."""
        training_run(job=job("--accuracy 0 --epochs 1"), at_once=1, **COMMON)

    trial.expand(epochs=[1, 2, 3])
