"""Shapes that few people fly: with a token, and sized by Ray's own autoscaler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from rayflight.airflow import training_run

TRAINING = Path(__file__).parents[3] / "include" / "training"
IMAGE = "docker.io/rayflight/ray-sim:2.60.0"
PARAMS: dict[str, Any] = {
    "image": Param(None, type=["null", "string"]),
    "namespace": Param(None, type=["null", "string"]),
    "workers": Param(1, type="integer"),
    "script_args": Param("", type="string"),
    "verify": Param(default=False, type="boolean"),
}
SMALL = {"cpu": 1, "memory": "2Gi", "memory_request": "1Gi"}
GROUP = {**SMALL, "name": "gpu", "gpus": 1, "cpu_request": "200m"}
SHAPE: dict[str, Any] = {"simulated": True, "ray_version": "2.60.0", "image": IMAGE}
SHAPE["head"] = {**SMALL, "cpu_request": "100m"}


def flight(dag_id: str, ranks: int, **shape: Any) -> None:
    """One DAG that trains so many ranks on this shape."""
    with DAG(dag_id, params=PARAMS, schedule=None, catchup=False):
        training_run(
            cluster={**SHAPE, **shape},
            resize={"image": "{{ params.image or '' }}"},
            namespace="{{ params.namespace or '' }}",
            verify="{{ params.verify }}",
            job={
                "entrypoint": f"python3 train.py --workers {ranks} --gpus-per-worker 1 {{{{ params.script_args }}}}",
                "working_dir": str(TRAINING),
            },
        )


flight("with_token", 1, auth="token", groups=[{**GROUP, "replicas": 1}])
flight(
    "autoscaled",
    2,
    autoscaler={"idle_timeout_seconds": 20, "cpu": "100m", "memory": "512Mi"},
    groups=[{**GROUP, "replicas": 1, "min_replicas": 1, "max_replicas": 2}],
)
