"""`make bench-verify`: what the task `verify` costs a run on the testbed, three runs. Exit code 1 above 25 s.

From the end of `wait_ready` to the start of `train`: everything that a run waits for its verification, Airflow's own
part included. Beside it the probe's own seconds, which are the matrix' business alone.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from dev.airflow_home import Settings
from dev.airflow_instance import Airflow
from dev.cluster import Cluster
from dev.flight_view import GROUP, table
from dev.machine import machine
from dev.place import Place, borrow_testbed

BUDGET = 25.0  # seconds
NAMESPACE = "bench-verify"
_LONGEST = 300.0
_PROBE = re.compile(r"(\d+) ranks? in ([\d.]+) s")


@dataclass(frozen=True, kw_only=True)
class Lap:
    """One run, in seconds."""

    between: float  # wait_ready's end to train's start
    task: float
    probe: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Fly, measure, print, judge."""
    parser = argparse.ArgumentParser(prog="make bench-verify", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with borrow_testbed() as place, _airflow(place) as airflow:
        cluster = Cluster(place.kubeconfig)
        cluster.create_namespace(NAMESPACE)
        airflow.client.wait_for_dag("train_ddp")
        print(f"on {machine()}", flush=True)
        laps = [_fly(airflow, place) for _ in range(options.rounds)]
        cluster.delete_namespace(NAMESPACE)
    return judge(laps)


def _fly(airflow: Airflow, place: Place) -> Lap:
    client = airflow.client
    conf = {"image": place.image, "namespace": NAMESPACE, "epochs": 1, "script_args": "--accuracy 0"}
    run = client.trigger("train_ddp", conf)
    state = client.wait_for_run(run, _LONGEST)
    ready, verify, train = (client.task(run, f"{GROUP}.{name}") for name in ("wait_ready", "verify", "train"))
    if state != "success" or not (ready.ended and train.started and verify.seconds):
        raise RuntimeError(f"run {run.run_id} ended {state}; verify is {verify.state}")
    ran = next(row for row in client.xcom(run, f"{GROUP}.verify")["checks"] if row["id"] == "probe-ran")
    found = _PROBE.search(ran["observed"])
    lap = Lap(
        between=(train.started - ready.ended).total_seconds(),
        task=verify.seconds,
        probe=float(found[2]) if found else 0.0,
    )
    print(f"{lap.between:.1f} s, of which the probe {lap.probe:.1f} s", flush=True)
    return lap


def judge(laps: Sequence[Lap]) -> int:
    """The table, and whether the budget was kept by the median."""
    rows: list[Sequence[str]] = [("seconds", *[f"run {n + 1}" for n in range(len(laps))], "median")]
    for name, values in (
        ("wait_ready → train", [lap.between for lap in laps]),
        ("task verify", [lap.task for lap in laps]),
        ("the probe itself", [lap.probe for lap in laps]),
    ):
        rows.append([name, *(f"{value:.1f}" for value in (*values, statistics.median(values)))])
    print(table(rows))
    median = statistics.median(lap.between for lap in laps)
    print(f"{median:.1f} s (at most {BUDGET:g}: {'kept' if median <= BUDGET else 'MISSED'})")
    return 0 if median <= BUDGET else 1


def _airflow(place: Place) -> Airflow:
    return Airflow(Settings(connections={"kubernetes_default": place.connection()}, rayflight={"instance": "bench"}))


if __name__ == "__main__":
    sys.exit(main())
