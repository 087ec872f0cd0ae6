"""`make down` in the middle of a flight: the run has failed and says why, and no later start goes on with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import quickstart, quickstart_runs
from dev.airflow_client import AirflowClient
from dev.airflow_process import wait_until


@pytest.mark.timeout(600)
def test_a_flight_that_down_stopped_does_not_go_on_at_the_next_start(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "demo"
    here = ["--folder", str(folder)]
    try:
        assert quickstart.main(["up", *here]) == 0
        client = signed_in(folder)
        run = client.trigger(quickstart.DAG, {"verify": False, "workers": 1, "epochs": 500})
        client.wait_for_task(run, "flight.wait_ready", ["deferred", "success"], 180)
        client.close()
        assert quickstart.main(["down", *here]) == 0
        assert (
            "1 run that flew failed with it, clear one to fly it again; no cluster is left" in capsys.readouterr().out
        )
        assert list((folder / "clusters").glob("*/rf-*")) == []

        assert quickstart.main(["up", *here]) == 0
        client = signed_in(folder)
        assert client.run(run)["state"] == "failed"
        assert client.run(run)["note"] == quickstart_runs.WHY
        assert not wait_until(lambda: bool(list((folder / "clusters").glob("*/rf-*"))), 10, every=1)
        assert {task.state for task in client.tasks(run)} == {"success", "failed", "skipped"}
        assert "flight.plan" in client.clear(run, ["flight.plan"])
        client.wait_for_task(run, "flight.provision", ["success"], 120)
        client.close()
    finally:
        quickstart.main(["down", *here])


def signed_in(folder: Path) -> AirflowClient:
    told = quickstart._told(folder)
    assert told is not None
    client = AirflowClient(told["url"], "admin", told["password"])
    client.sign_in()
    return client
