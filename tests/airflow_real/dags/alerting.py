"""Flights without an aircraft that fail as they are told: to try alerts, metrics and assets on a real Airflow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from rayflight.airflow import RayflightNotifier, metrics, verified_pool
from rayflight.airflow.assets import VERIFIED, announce
from rayflight.errors import VerificationFailed
from rayflight.findings import Check
from rayflight.lifecycle.flight import Flight
from rayflight.verification import diagnosis_from_checks

CHANNELS: list[Any] = [{"conn_id": "duty_mail"}, "duty_hook", "nobody_there"]
tell = RayflightNotifier(CHANNELS)


def fail() -> None:
    row = Check(
        id="compute",
        level=4,
        subject="rank 0 in pod w-1 on node gpu-1",
        expected="right numbers",
        observed="numbers WRONG on GPU-0badc0de-0000-4000-8000-000000000000",
        verdict="failed",
        next_step="drain node gpu-1",
    )
    error = VerificationFailed("Failed", which="on n/rf-1", diagnosis=diagnosis_from_checks([row]), checks=[row])
    metrics.failed(error, stage="verify", training=False)
    raise error


with DAG("alerting", schedule=None, catchup=False):

    @task(on_failure_callback=tell, on_success_callback=tell, outlets=[VERIFIED])
    def verify(dag_run: Any = None, **context: Any) -> None:
        if dag_run.conf.get("bad"):
            fail()
        owner = {"airflow": "test", "dag_id": "alerting", "run_id": dag_run.run_id, "group": "g"}
        flight = Flight.from_dict({"owner": owner, "namespace": "n", "spec": {"name": "toy"}, "archive": "file:///x"})
        announce(context, flight, {"cluster": {"name": "rf-1"}, "checks": []})  # type: ignore[arg-type]

    verify()

with DAG("waits_for_pool", schedule=verified_pool("toy"), catchup=False):

    @task
    def train(triggering_asset_events: Any = None) -> list[Any]:
        return [event.extra for events in triggering_asset_events.values() for event in events]

    train()

with DAG(
    "late",
    schedule=None,
    catchup=False,
    on_failure_callback=tell,
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=1),
        callback=AsyncCallback(RayflightNotifier, kwargs={"channels": CHANNELS}),
    ),
):

    @task.bash
    def dawdle() -> str:
        return "sleep 15; false"

    dawdle()
