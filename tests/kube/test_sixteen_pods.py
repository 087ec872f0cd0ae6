"""The logs of sixteen pods are collected in half a minute, each pod's among them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.kube.flights import Flights

WORKERS = 15
SECONDS = 30.0


@pytest.mark.full
@pytest.mark.timeout(900, func_only=True)
def test_sixteen_pods_are_collected_in_time(flights: Flights):
    run = flights.take_off("many_pods", workers=WORKERS)
    assert flights.land(run, 800) == "success"
    collected = flights.task(run, "collect_logs")
    folder = Path(urlsplit(flights.xcom(run, "plan")["archive"]).path)
    logs = [file for file in folder.rglob("logs/*/*") if file.is_file()]
    pods = {file.parent.name for file in logs}
    missing = flights.xcom(run, "collect_logs")["missing"]
    print(f"{len(logs)} logs of {len(pods)} pods in {collected.seconds} s, missing: {missing}")
    assert len(pods) == WORKERS + 1
    assert collected.seconds is not None
    assert collected.seconds <= SECONDS
    flights.assert_nothing_left(run)
