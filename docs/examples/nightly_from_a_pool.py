"""Every night one training, within the GPUs that the team's pool has, and a message when it is not done by six.

airflow pools set gpus 16 "GPUs of the cluster" --include-deferred
"""

from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, AsyncCallback, DeadlineAlert, DeadlineReference

from rayflight.airflow import RayflightNotifier, training_run

TRAINING = Path(__file__).parent.parent / "include" / "training"
TELL = {"channels": ["team_slack"]}  # ids of Airflow connections, see docs/alerts.md

with DAG(
    "nightly_from_a_pool",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,  # a night that was missed is not made up for
    max_active_runs=1,  # a long night does not meet the next one
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=4),
        callback=AsyncCallback(RayflightNotifier, kwargs=TELL),
    ),
    on_failure_callback=RayflightNotifier(**TELL),
    tags=["example"],
    doc_md=__doc__,
) as dag:
    training_run(
        cluster="gpu-2x1",
        job={
            "entrypoint": "python3 train.py --workers 2 --epochs 20",
            "working_dir": str(TRAINING),
            "timeout": "3h",  # longer is stopped: GPUs are not held by a training that hangs
        },
        pool="gpus",  # waits, deferred, until the pool has so many slots free
        pool_slots=2,  # one slot is one GPU
        retries=3,
    )
