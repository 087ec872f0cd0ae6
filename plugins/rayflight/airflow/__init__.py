"""The only package that imports Airflow: operators, sensors, triggers, links, the task group and the UI.

It translates between Airflow and the core and decides nothing that the core could decide. The names below are what a
DAG file needs; they are imported on first use, so that reading one of them costs only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayflight.airflow.assets import verified_pool
    from rayflight.airflow.notifier import RayflightNotifier
    from rayflight.airflow.operators import (
        CollectRayLogs,
        CreateRayCluster,
        DeleteRayCluster,
        PlanFlight,
        PoolHistory,
        SubmitRayJob,
        SweepClusters,
        VerifyRayCluster,
    )
    from rayflight.airflow.pool_sensor import PoolGoodSensor
    from rayflight.airflow.retry import DiagnosisRetryPolicy
    from rayflight.airflow.sensors import RayClusterGoneSensor, RayClusterReadySensor, RayJobFinishedSensor
    from rayflight.airflow.task_group import training_run

_WHERE = {
    "training_run": "rayflight.airflow.task_group",
    "RayflightNotifier": "rayflight.airflow.notifier",
    "verified_pool": "rayflight.airflow.assets",
    "PoolHistory": "rayflight.airflow.operators",
    "PoolGoodSensor": "rayflight.airflow.pool_sensor",
    "DiagnosisRetryPolicy": "rayflight.airflow.retry",
    "RayClusterReadySensor": "rayflight.airflow.sensors",
    "RayJobFinishedSensor": "rayflight.airflow.sensors",
    "RayClusterGoneSensor": "rayflight.airflow.sensors",
    "PlanFlight": "rayflight.airflow.operators",
    "CreateRayCluster": "rayflight.airflow.operators",
    "VerifyRayCluster": "rayflight.airflow.operators",
    "SubmitRayJob": "rayflight.airflow.operators",
    "CollectRayLogs": "rayflight.airflow.operators",
    "DeleteRayCluster": "rayflight.airflow.operators",
    "SweepClusters": "rayflight.airflow.operators",
}

__all__ = [
    "CollectRayLogs",
    "CreateRayCluster",
    "DeleteRayCluster",
    "DiagnosisRetryPolicy",
    "PlanFlight",
    "PoolGoodSensor",
    "PoolHistory",
    "RayClusterGoneSensor",
    "RayClusterReadySensor",
    "RayJobFinishedSensor",
    "RayflightNotifier",
    "SubmitRayJob",
    "SweepClusters",
    "VerifyRayCluster",
    "training_run",
    "verified_pool",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
