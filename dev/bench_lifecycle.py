"""`make bench-lifecycle`: the same training as a plain RayJob and by Rayflight without verification, alternating.

Measured from outside for both alike: from the creation (RayJob; RayCluster) until no pod of it holds anything. The
completed submitter pod of the RayJob stays and is not counted against it. Exit code 1 when Rayflight is the slower one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dev import plain_rayjob
from dev.airflow_home import ROOT, Settings
from dev.airflow_instance import Airflow
from dev.cluster import RAY, Cluster
from dev.flight_view import GROUP, table
from dev.machine import machine
from dev.place import Place, borrow_testbed
from dev.stopwatch import Stopwatch

INSTANCE = "bench"
_LONGEST = 300.0  # seconds for one lifecycle


@dataclass(frozen=True, kw_only=True)
class Lap:
    """One lifecycle. Times are time.time(); ``ordered`` is when a person asked for it."""

    who: str
    ordered: float
    created: float
    ready: float
    job_started: float
    job_ended: float
    gone: float

    def stages(self) -> dict[str, float]:
        """Seconds of each stage."""
        return {
            "order → create": self.created - self.ordered,
            "create → all pods Ready": self.ready - self.created,
            "Ready → job runs": self.job_started - self.ready,
            "job": self.job_ended - self.job_started,
            "job ended → pods gone": self.gone - self.job_ended,
            "create → gone": self.gone - self.created,
            "order → gone": self.gone - self.ordered,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Fly, measure, print, judge."""
    parser = argparse.ArgumentParser(prog="make bench-lifecycle", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with borrow_testbed() as place, _airflow(place) as airflow:
        cluster = Cluster(place.kubeconfig)
        bench = Bench(airflow, cluster, place)
        print(f"on {machine()}", flush=True)
        laps: list[Lap] = []
        for number in range(1, options.rounds + 1):
            for fly in (bench.rayflight, bench.rayjob):
                lap = fly(number)
                laps.append(lap)
                print(f"round {number} {lap.who:9}: {lap.gone - lap.created:.1f} s", flush=True)
    return _judge(laps)


class Bench:
    """Both ways on one cluster, each lap in a namespace of its own."""

    def __init__(self, airflow: Airflow, cluster: Cluster, place: Place) -> None:
        self._airflow, self._cluster, self._place = airflow, cluster, place
        self._flight: dict[str, Any] = {}

    def rayflight(self, number: int) -> Lap:
        """Trigger the DAG without verification and measure."""
        client, namespace = self._airflow.client, self._namespace(f"bench-rayflight-{number}")
        client.wait_for_dag("train_ddp")
        with Stopwatch(self._cluster, namespace, pods=3) as watch:
            ordered = time.time()
            conf = {"image": self._place.image, "shape": "testbed-2x1", "namespace": namespace, "verify": False}
            run = client.trigger("train_ddp", conf)
            state = client.wait_for_run(run, _LONGEST)
            if state != "success":
                failed = [task for task in client.tasks(run) if task.state == "failed"]
                reasons = "\n".join(f"{task.name}: {client.failure(run, task)}" for task in failed)
                raise RuntimeError(f"run {run.run_id} ended {state}:\n{reasons}")
            gone = watch.wait_gone(10)
        self._flight = client.xcom(run, f"{GROUP}.plan")
        trained = client.xcom(run, f"{GROUP}.train")
        return Lap(
            who="Rayflight",
            ordered=ordered,
            created=watch.created or 0,
            ready=watch.ready or 0,
            job_started=_seconds(trained["started_at"]),
            job_ended=_seconds(trained["ended_at"]),
            gone=gone,
        )

    def rayjob(self, number: int) -> Lap:
        """Create the RayJob and measure."""
        name = f"bench-rayjob-{number}"
        namespace = self._namespace(name)
        configmap, job = plain_rayjob.rayjob(self._flight, name, namespace, ROOT / "include" / "training")
        with Stopwatch(self._cluster, namespace, pods=3) as watch:
            created = time.time()
            plain_rayjob.create(self._cluster, configmap, job)
            gone = watch.wait_gone(_LONGEST)
        stored = self._cluster.request("GET", f"{RAY}/namespaces/{namespace}/rayjobs/{name}")
        status = stored["status"]
        if status.get("jobStatus") != "SUCCEEDED":
            raise RuntimeError(f"RayJob {name} ended {status.get('jobStatus')}: {status.get('message')}")
        times = status.get("rayJobInfo") or {}
        self._cluster.delete_namespace(namespace)
        return Lap(
            who="RayJob",
            ordered=created,
            created=created,
            ready=watch.ready or 0,
            job_started=_seconds(times.get("startTime") or status["startTime"]),
            job_ended=_seconds(times.get("endTime") or status["endTime"]),
            gone=gone,
        )

    def _namespace(self, name: str) -> str:
        name = f"{name}-{os.getpid()}"
        self._cluster.create_namespace(name)
        return name


def _judge(laps: Sequence[Lap]) -> int:
    rayflight = [lap for lap in laps if lap.who == "Rayflight"]
    rayjob = [lap for lap in laps if lap.who == "RayJob"]
    header = ("stage, seconds", *[f"Rayflight {n + 1}" for n in range(len(rayflight))], "median")
    header = (*header, *[f"RayJob {n + 1}" for n in range(len(rayjob))], "median", "ratio")
    rows: list[Sequence[str]] = [header]
    for stage in rayflight[0].stages():
        ours, theirs = ([lap.stages()[stage] for lap in group] for group in (rayflight, rayjob))
        ours_median, theirs_median = statistics.median(ours), statistics.median(theirs)
        times = f"{ours_median / theirs_median:.2f}" if theirs_median > 0.05 else ""
        numbers = [*ours, ours_median, *theirs, theirs_median]
        rows.append([stage, *(f"{number:.1f}" for number in numbers), times])
    print(table(rows))
    ours_median = statistics.median(lap.gone - lap.created for lap in rayflight)
    theirs_median = statistics.median(lap.gone - lap.created for lap in rayjob)
    ratio = ours_median / theirs_median
    verdict = "kept" if ratio <= 1 else "MISSED"
    print(f"Rayflight {ours_median:.1f} s, RayJob {theirs_median:.1f} s, ratio {ratio:.2f} (at most 1.00: {verdict})")
    return 0 if ratio <= 1 else 1


def _airflow(place: Place) -> Airflow:
    return Airflow(Settings(connections={"kubernetes_default": place.connection()}, rayflight={"instance": INSTANCE}))


def _seconds(when: str) -> float:
    return datetime.fromisoformat(when).timestamp()


if __name__ == "__main__":
    sys.exit(main())
