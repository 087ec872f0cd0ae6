"""A training that hangs at every try; what becomes of it is the parameter."""

from pathlib import Path

from airflow.sdk import DAG, Param

from rayflight.airflow import training_run

DRILLS = Path(__file__).parents[3] / "include" / "drills"
SHAPE = {
    "image": "none",
    "simulated": True,
    "head": {"memory": "1Gi"},
    "groups": [{"name": "gpu", "replicas": 1, "gpus": 1, "cpu": 1, "memory": "1Gi"}],
}

with DAG(
    "hangs",
    params={"on_hang": Param("fail", type="string")},
    schedule=None,
    catchup=False,
    render_template_as_native_obj=True,
) as dag:
    training_run(
        cluster=SHAPE,
        job={
            "entrypoint": "python3 hang_data_loader.py --ranks 2",
            "working_dir": str(DRILLS),
            "on_hang": "{{ params.on_hang }}",
            "hang_after": "20s",
        },
        verify=False,
        retries=1,
        conn_id="here",
    )
