"""When new data has arrived: train, and publish the model as an asset that carries its metrics.

The DAG that writes the data names DATA among its task's outlets; whoever serves the model is scheduled on MODEL.
"""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Metadata, Param, task

from rayflight.airflow import training_run

TRAINING = Path(__file__).parent.parent / "include" / "training"
DATA = Asset("s3://bucket/clicks")
MODEL = Asset("s3://bucket/models/clicks")

with DAG(
    "new_data_new_model",
    schedule=[DATA],
    max_active_runs=1,  # runs for data that arrives meanwhile wait
    params={"least_accuracy": Param(0.9, type="number", minimum=0, maximum=1, title="Least accuracy to publish")},
    tags=["example"],
    doc_md=__doc__,
) as dag:
    flight = training_run(
        cluster="gpu-2x1",
        job={
            "entrypoint": "python3 train.py --workers 2 --epochs 20",
            "working_dir": str(TRAINING),
            "env": {"NEW_DATA": "{{ triggering_asset_events | length }}"},
        },
    )

    @task(outlets=[MODEL])
    def publish(trained: dict[str, Any], params: dict[str, Any]) -> Any:
        """A model that is not good enough fails here: the asset is not updated, nobody serves it."""
        metrics = trained["metrics"]
        if metrics["accuracy"] < params["least_accuracy"]:
            raise ValueError(f"accuracy {metrics['accuracy']} is below {params['least_accuracy']}: not published")
        yield Metadata(MODEL, {**metrics, "submission": trained["submission_id"]})

    publish(flight.get_child_by_label("train").output)
