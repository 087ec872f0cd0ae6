"""A flight without an aircraft: the wiring of a training run, in seconds, to try the Airflow harness on."""

from __future__ import annotations

import time
from typing import Any

from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.sdk import dag, setup, task, teardown


@dag(schedule=None, catchup=False)
def toy_flight() -> None:
    @setup
    def plan(params: dict[str, Any] | None = None, dag_run: Any = None) -> dict[str, Any]:
        print("RAYFLIGHT_TOY plan", dag_run.conf)
        return {"attempt": 1, "checks": [{"id": "a", "verdict": "passed"}]}

    now = "macros.datetime.now(macros.dateutil.tz.UTC)"
    after = "macros.timedelta(seconds=dag_run.conf.get('seconds', 1))"
    wait = DateTimeSensorAsync(task_id="wait", target_time="{{ " + now + " + " + after + " }}")

    @task
    def work(dag_run: Any = None) -> dict[str, Any]:
        if dag_run.conf.get("fail"):
            raise RuntimeError("the toy was told to fail")
        time.sleep(0.1)
        return {"status": "SUCCEEDED"}

    @teardown
    def tear_down() -> dict[str, Any]:
        return {"left": []}

    planned, gone = plan(), tear_down()
    planned >> wait >> work() >> gone
    planned >> gone


toy_flight()
