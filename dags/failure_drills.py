"""Failure drills: asks for what must fail, for real, and fails unless Rayflight names the cause (docs/drills.md)."""

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task

from rayflight.airflow import DiagnosisRetryPolicy, RayflightNotifier, SubmitRayJob, drills, training_run

FOLDER = Path(__file__).parent.parent / "include" / "drills"
TABLE = drills.read(FOLDER)
OFFERED = drills.by_themselves(TABLE)  # the others need `make drills`, which breaks things from outside
SETUPS = [f"flight.{name}" for name in ("plan", "provision", "wait_ready", "verify")]
# Where alerts go, if there is such a connection.
TELL = [drills.note_verdict, RayflightNotifier(["drill_alerts"], window_minutes=0)]
RETRY = DiagnosisRetryPolicy()

PARAMS = {
    "drills": Param(
        OFFERED[:1],
        type="array",
        items={"type": "string"},
        examples=OFFERED,
        title="Drills (several fly on one cluster)",
    ),
    "shape": Param("testbed-2x1", type="string", title="Cluster shape"),
    "image": Param(None, type=["null", "string"], title="Image", description="Empty: the shape's own image."),
    "namespace": Param(None, type=["null", "string"], title="Namespace", description="Empty: the connection's own."),
    "conn_id": Param("kubernetes_default", type="string", title="Connection"),
}

with DAG("failure_drills", params=PARAMS, schedule=None, catchup=False, tags=["rayflight"], doc_md=__doc__) as dag:
    common: dict[str, Any] = {"conn_id": "{{ params.conn_id }}", "on_failure_callback": TELL, "on_retry_callback": TELL}

    @task
    def shape(*, params: dict[str, Any]) -> dict[str, Any]:
        """The shape with the fault in it."""
        return drills.spoilt(TABLE, params["drills"], shape=params["shape"], image=params["image"])

    @task
    def jobs(*, params: dict[str, Any]) -> list[dict[str, Any]]:
        """One submission per drill."""
        return drills.submissions(TABLE, params["drills"], FOLDER)

    @task(trigger_rule="all_done")
    def judge(*, params: dict[str, Any], ti: Any) -> None:
        """Red unless every cause was named."""
        early = ti.xcom_pull(task_ids=SETUPS, key=drills.VERDICT)
        places = range(len(params["drills"]))
        trained = [ti.xcom_pull(task_ids="train", key=drills.VERDICT, map_indexes=place) for place in places]
        if wrong := drills.judge(TABLE, params["drills"], early=early, trained=trained):
            raise AssertionError("\n".join(wrong))

    training_run(cluster=shape(), job=None, verify=False, namespace="{{ params.namespace or '' }}", **common)  # type: ignore[call-arg]
    train = SubmitRayJob.partial(
        task_id="train", flight=dag.get_task("flight.plan").output, retries=2, retry_policy=RETRY, **common
    ).expand(job=jobs())  # type: ignore[call-arg]
    dag.get_task("flight.verify") >> train >> [dag.get_task("flight.collect_logs"), judge()]  # type: ignore[call-arg]
