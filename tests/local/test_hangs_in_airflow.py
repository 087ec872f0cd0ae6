"""What a job says of hangs is what Airflow does: `fail` ends the task at once, `retry` costs a try and a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import quickstart_connection
from dev.airflow_home import Settings
from dev.airflow_instance import Airflow

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def test_a_hang_fails_at_once_or_is_tried_again_on_another_cluster(tmp_path: Path) -> None:
    (tmp_path / "clusters").mkdir()
    settings = Settings(
        dag_folders=(Path(__file__).parent / "dags",),
        connections={"here": quickstart_connection.local(tmp_path)},
        rayflight={"instance": "hangs", "archive": (tmp_path / "archive").as_uri()},
    )
    with Airflow(settings) as airflow:
        client = airflow.client
        client.wait_for_dag("hangs")
        runs = {word: client.trigger("hangs", {"on_hang": word}) for word in ("fail", "retry")}
        tries = {}
        for word, run in runs.items():
            assert client.wait_for_run(run, seconds=400) == "failed"
            train = client.task(run, "flight.train")
            tries[word] = train.try_number
            told = client.failure(run, train)
            assert "rank 1 on pod rf-" in told
            assert "waiting for input data" in told
            assert client.xcom(run, "flight.tear_down")["kept"] == []
        assert tries == {"fail": 1, "retry": 2}
        assert "The next cluster of this attempt is needed" in client.log(runs["retry"], "flight.train", try_number=2)
    assert list((tmp_path / "clusters" / "default").glob("rf-*")) == []
