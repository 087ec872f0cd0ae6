"""Every Sunday: one flight per number of epochs, at most two with pods at once, and the best of them."""

from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task, task_group

from rayflight.airflow import training_run

TRAINING = Path(__file__).parent.parent / "include" / "training"
EPOCHS = Param([2, 5, 10], type="array", items={"type": "integer"}, minItems=1, title="Epochs to try")

with DAG(
    "weekly_sweep",
    schedule="0 4 * * 0",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    params={"epochs": EPOCHS},
    tags=["example"],
    doc_md=__doc__,
) as dag:

    @task
    def jobs(params: dict[str, Any]) -> list[dict[str, Any]]:
        """One job per trial: what differs between flights is made here, where it is plain Python."""
        command = "python3 train.py --workers 2 --epochs"
        return [{"entrypoint": f"{command} {epochs}", "working_dir": str(TRAINING)} for epochs in params["epochs"]]

    @task_group
    def trial(job: dict[str, Any]) -> Any:
        """A flight of its own: its cluster, its archive, its retries."""
        flight = training_run(cluster="gpu-2x1", job=job, at_once=2)
        return flight.get_child_by_label("train").output

    @task(trigger_rule="none_skipped")  # also when some trials failed
    def best(trained: list[dict[str, Any]]) -> dict[str, Any]:
        """The metrics of the trial with the best accuracy."""
        return dict(max((item["metrics"] for item in trained if item), key=lambda metrics: metrics["accuracy"]))

    best(trial.expand(job=jobs()))
