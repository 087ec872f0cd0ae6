"""Verifies a cluster that a test holds, again and again, and tells whoever is on duty. Only tests fly these."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param

from rayflight.airflow import RayflightNotifier, VerifyRayCluster

PARAMS: dict[str, Any] = {"flight": Param({}, type="object"), "on_fail": Param("fail", type="string")}

with DAG("verify_held", params=PARAMS, schedule=None, catchup=False, render_template_as_native_obj=True):
    VerifyRayCluster(
        task_id="verify",
        flight="{{ params.flight }}",
        on_fail="{{ params.on_fail }}",
        retries=0,
        on_failure_callback=RayflightNotifier(["duty_mail", "duty_hook"]),
    )
