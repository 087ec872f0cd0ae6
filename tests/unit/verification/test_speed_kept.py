"""A GPU against its own past: the criterion is learned from what passed before."""

from __future__ import annotations

from typing import Any

import pytest

from rayflight.findings import Check
from rayflight.fleet import Occasion, earlier, records
from rayflight.verification import verify_all
from tests.unit.verification.probing import COPY, rank, result, snapshot_with_store, spec

NODES = {"flight-gpu-worker-1": "gpu-1", "flight-gpu-worker-2": "gpu-2"}
SEEN = snapshot_with_store()


def nights(count: int, *, gbps: float = 24.0, bad: bool = False, simulated: bool = False) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    rows = [Check(id="compute", level=4, subject="", expected="", observed="", verdict="failed", facts={"rank": 1})]
    for night in range(count):
        at = f"2026-11-{night + 1:02d}T03:00:00Z"
        occasion = Occasion(at=at, cluster="c", uid=at, dag_id="d", run_id="r", simulated=simulated)
        copied = result(
            *(rank(number, copy={**COPY, "uuid": str(number), "to_device_gbps": gbps}) for number in (0, 1))
        )
        for each in copied["ranks"]:
            each["gpu_ids"] = ["0"]
        made += records(occasion, NODES, rows if bad else [], copied).values()
    return made


def row(before: list[dict[str, Any]], *, gbps: float = 19.0, **policy: Any) -> Check:
    slow = rank(1, copy={**COPY, "uuid": "1", "to_device_gbps": gbps})
    rows = verify_all(spec(verification=policy), SEEN, result(rank(0), slow), earlier=earlier(before))
    return next(check for check in rows if check.id == "speed-kept")


@pytest.mark.parametrize(("setting", "verdict"), [("warn", "warned"), ("fail", "failed")])
def test_a_gpu_that_became_slow_is_named_with_how_much(setting: str, verdict: str) -> None:
    found = row(nights(6), straggler=setting)
    assert found.verdict == verdict
    assert found.observed == (
        "rank 1 in pod flight-gpu-worker-2 on node gpu-2: copy.to_device_gbps 19, 21 % below 24, the median of this "
        "GPU in 6 earlier verifications"
    )
    assert (found.facts["node"], found.facts["gpu"]) == ("gpu-2", "GPU-1")


def test_a_difference_within_a_tenth_is_none() -> None:
    assert row(nights(6), gbps=22.5).verdict == "passed"


def test_a_gpu_that_is_new_is_compared_with_its_product() -> None:
    before = [{**it, "gpus": [{**gpu, "uuid": "GPU-old"} for gpu in it["gpus"]]} for it in nights(3)]
    assert "the median of NVIDIA A100 in 6 earlier verifications" in row(before).observed


def test_too_few_earlier_verifications_are_no_measure() -> None:
    assert row(nights(2)).verdict == "not applicable"
    assert row([]).verdict == "not applicable"


def test_what_failed_or_was_simulated_is_no_measure() -> None:
    assert row(nights(6, gbps=40.0, bad=True) + nights(6), gbps=24.0).verdict == "passed"
    assert row(nights(6, simulated=True)).verdict == "not applicable"


def test_earlier_figures_that_are_all_apart_prove_nothing() -> None:
    before = [it for gbps in (40.0, 12.0, 36.0, 14.0, 30.0, 20.0) for it in nights(1, gbps=gbps)]
    assert row(before, gbps=18.0).verdict == "passed"
