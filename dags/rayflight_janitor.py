"""Every ten minutes: removes clusters that no living run of this Airflow owns. Deletes by UID; asks Airflow first."""

from airflow.sdk import DAG, Param

from rayflight.airflow import SweepClusters

PARAMS = {
    "namespaces": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Namespaces",
        description="Empty: those the connection allows.",
    ),
    "release": Param(
        [], type="array", items={"type": "string"}, title="Release", description="Kept clusters that may go now."
    ),
    "dry_run": Param(False, type="boolean", title="Only say what would be deleted"),  # noqa: FBT003
}

with DAG(
    "rayflight_janitor",
    params=PARAMS,
    schedule="*/10 * * * *",
    catchup=False,
    max_active_runs=1,
    tags=["rayflight"],
    doc_md=__doc__,
) as dag:
    SweepClusters(
        task_id="sweep",
        namespaces="{{ params.namespaces }}",
        release="{{ params.release }}",
        report_only="{{ params.dry_run }}",
    )
