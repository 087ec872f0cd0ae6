"""Operators of a flight. Each is usable alone; ``rayflight.airflow.training_run`` wires them. Light to import."""

from rayflight.airflow.operators.collect import CollectRayLogs
from rayflight.airflow.operators.create import CreateRayCluster
from rayflight.airflow.operators.delete import DeleteRayCluster
from rayflight.airflow.operators.history import PoolHistory
from rayflight.airflow.operators.plan import PlanFlight
from rayflight.airflow.operators.submit import SubmitRayJob
from rayflight.airflow.operators.sweep import SweepClusters
from rayflight.airflow.operators.verify import VerifyRayCluster

__all__ = [
    "CollectRayLogs",
    "CreateRayCluster",
    "DeleteRayCluster",
    "PlanFlight",
    "PoolHistory",
    "SubmitRayJob",
    "SweepClusters",
    "VerifyRayCluster",
]
