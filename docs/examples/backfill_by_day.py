"""One training per day of data, safe to backfill: each run trains its own interval, few at once, all within the pool.

airflow backfill create --dag-id backfill_by_day --from-date 2026-11-01 --to-date 2026-11-30 --max-active-runs 2
"""

from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG

from rayflight.airflow import training_run

TRAINING = Path(__file__).parent.parent / "include" / "training"

with DAG(
    "backfill_by_day",
    schedule="@daily",
    start_date=datetime(2026, 11, 1),
    catchup=False,  # True would start every day since start_date by itself; a backfill is asked for
    max_active_runs=2,  # so many clusters at most, whoever starts runs
    default_args={"depends_on_past": False},  # a day that fails does not hold up the others
    tags=["example"],
    doc_md=__doc__,
) as dag:
    training_run(
        cluster="gpu-2x1",
        job={
            # The script finds its day in RAYFLIGHT_DATA_INTERVAL_START: nothing here depends on today.
            "entrypoint": "python3 train.py --workers 2 --epochs 5",
            "working_dir": str(TRAINING),
            # One folder per run: a day that is trained again resumes its own checkpoints and nobody else's.
            "storage": {"claim": "checkpoints"},
        },
        pool="gpus",
        pool_slots=2,
        priority_weight=-1,  # a backfill lets everybody else go first
    )
