"""Every night: each shape is created, verified on its devices, and torn down: a bad GPU is known before the morning."""

from datetime import timedelta

from airflow.sdk import DAG, Param, task, task_group

from rayflight.airflow import PoolHistory, training_run

PARAMS = {
    "shapes": Param(
        ["testbed-2x1"],
        type="array",
        items={"type": "string"},
        minItems=1,
        title="Shapes",
        description="One check each.",
    ),
    "namespace": Param(None, type=["null", "string"], title="Namespace", description="Empty: the connection's own."),
}

with DAG(
    "verify_gpu_pool",
    params=PARAMS,
    schedule="0 3 * * *",
    catchup=False,
    max_active_runs=1,
    tags=["rayflight"],
    doc_md=__doc__,
) as dag:

    @task
    def shapes(params: dict[str, object]) -> object:
        """The shapes to check, one mapped flight each."""
        return params["shapes"]

    @task_group
    def check(shape: str) -> None:
        """One flight without a training."""
        training_run(
            cluster=shape,
            job=None,
            namespace="{{ params.namespace or '' }}",
            at_once=1,
            retries=0,
            ready_timeout=timedelta(minutes=15),
        )

    # A teardown: it tells of failed nights, too, and, green, it must not turn a red run green. Arrows from the group
    # itself would leave out setups and teardowns, which is all that is in it.
    check.expand(shape=shapes())  # type: ignore[call-arg, misc]
    dag.get_task("check.flight.collect_logs") >> PoolHistory(task_id="history").as_teardown()
