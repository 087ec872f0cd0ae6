"""The demo as a team's service account flies it: a connection with the rights of deploy/kubernetes."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from rayflight.airflow import training_run

TRAINING = Path(__file__).parents[3] / "include" / "training"
PARAMS = {
    "image": Param("", type="string"),
    "namespace": Param("", type="string"),
    "workers": Param(1, type="integer"),
    "verify": Param(default=True, type="boolean"),
    "shape": Param("testbed-2x1", type="string"),
    "script_args": Param("--epochs 1 --accuracy 0", type="string"),
}

with DAG("train_as_team", params=PARAMS, schedule=None, catchup=False):
    training_run(
        conn_id="kubernetes_team",
        cluster="{{ params.shape }}",
        resize={"replicas": "{{ params.workers }}", "image": "{{ params.image }}"},
        namespace="{{ params.namespace }}",
        job={
            "entrypoint": "python3 train.py --gpus-per-worker 1 --workers {{ params.workers }} "
            "{{ params.script_args }}",
            "working_dir": str(TRAINING),
        },
        verify="{{ params.verify }}",
    )
