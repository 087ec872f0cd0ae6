"""Two functions on one cluster: what one returns is what the other gets; the third fails."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from rayflight.airflow import training_run

SHAPE = {
    "image": "none",
    "simulated": True,
    "head": {"memory": "1Gi"},
    "groups": [{"name": "gpu", "replicas": 1, "gpus": 1, "cpu": 1, "memory": "1Gi"}],
}

with DAG("functions", schedule=None, catchup=False) as dag:
    flight = training_run(cluster=SHAPE, job=None, verify=False, conn_id="here", ready_timeout=timedelta(minutes=5))

    @task.ray(flight=flight, conn_id="here", num_gpus=1)
    def spread(numbers: list[int]) -> dict[str, Any]:
        import os  # noqa: PLC0415 - as a function must that is sent

        import ray  # noqa: PLC0415

        @ray.remote  # type: ignore[untyped-decorator]
        def double(number: int) -> int:
            return 2 * number

        ray.init()
        doubled = ray.get([double.remote(number) for number in numbers])
        return {"doubled": doubled, "run_id": os.environ["RAYFLIGHT_RUN_ID"]}

    @task.ray(flight=flight, conn_id="here", retries=0)
    def fail(spread: dict[str, Any]) -> None:
        raise ZeroDivisionError(f"with {spread['doubled']}")

    fail(spread([1, 2, 3]))  # type: ignore[arg-type]
