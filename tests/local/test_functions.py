"""``@task.ray`` and the connection's Test button in a real Airflow, on real Ray clusters of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dev import quickstart_connection
from dev.airflow_home import Settings
from dev.airflow_instance import Airflow


@pytest.mark.timeout(600)
def test_functions_share_a_cluster_and_the_connection_can_be_tested(tmp_path: Path) -> None:
    (tmp_path / "clusters").mkdir()
    connection = {**quickstart_connection.local(tmp_path), "conn_type": "rayflight"}
    settings = Settings(
        dag_folders=(Path(__file__).parent / "dags",),
        connections={"here": connection},
        rayflight={"instance": "functions", "archive": (tmp_path / "archive").as_uri()},
        environment={"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"},
    )
    with Airflow(settings) as airflow:
        form = {"connection_id": "here", "conn_type": "rayflight", "extra": json.dumps(connection["extra"])}
        tested = airflow.client.test_connection(form)
        assert tested["status"] is True, tested
        assert "starts clusters as processes of this machine" in tested["message"]

        airflow.client.wait_for_dag("functions")
        run = airflow.client.trigger("functions")
        assert airflow.client.wait_for_run(run, seconds=420) == "failed"
        failed = [task for task in airflow.client.tasks(run) if task.state == "failed"]
        assert [task.task_id for task in failed] == ["fail"]
        assert airflow.client.xcom(run, "spread") == {"doubled": [2, 4, 6], "run_id": run.run_id}
        assert airflow.client.xcom(run, "spread", key="submission")["status"] == "SUCCEEDED"
        assert "ZeroDivisionError: with [2, 4, 6]" in airflow.client.failure(run, failed[0])
        assert airflow.client.xcom(run, "flight.tear_down")["kept"] == []
    assert list((tmp_path / "clusters" / "default").glob("rf-*")) == []
