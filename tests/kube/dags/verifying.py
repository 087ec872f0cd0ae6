"""Verifies a cluster that a test holds, again and again, and tells whoever is on duty. Only tests fly these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from rayflight.airflow import RayflightNotifier, VerifyRayCluster, training_run

TRAINING = Path(__file__).parents[3] / "include" / "training"
PARAMS: dict[str, Any] = {"flight": Param({}, type="object"), "on_fail": Param("fail", type="string")}

with DAG("verify_held", params=PARAMS, schedule=None, catchup=False, render_template_as_native_obj=True):
    VerifyRayCluster(
        task_id="verify",
        flight="{{ params.flight }}",
        on_fail="{{ params.on_fail }}",
        retries=0,
        on_failure_callback=RayflightNotifier(["duty_mail", "duty_hook"]),
    )

WATCHED: dict[str, Any] = {"image": Param("", type="string"), "namespace": Param("", type="string")}

with DAG("train_watched", params={**WATCHED, "workers": 1, "verify": False}, schedule=None, catchup=False):
    training_run(
        cluster="testbed-2x1",
        resize={"replicas": 1, "image": "{{ params.image }}"},
        namespace="{{ params.namespace }}",
        verify=False,
        job={
            "entrypoint": "python3 ddp.py --workers 1 --gpus-per-worker 1 --epochs 45 --seconds-per-epoch 1"
            " --accuracy 0",
            "working_dir": str(TRAINING),
        },
        on_failure_callback=RayflightNotifier(["duty_mail", "duty_hook"]),
    )
