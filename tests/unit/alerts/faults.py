"""Faults that alerts are made of, and a store in memory that refuses what is not a compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rayflight.alerts import Alert, Link, Run, problem
from rayflight.errors import VerificationFailed
from rayflight.findings import Check
from rayflight.states import Verdict
from rayflight.verification import diagnosis_from_checks

NOW = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
RUN = Run(dag_id="train", run_id="r1", task_id="flight.verify", url="https://airflow.example/dags/train/runs/r1")
UUID = "GPU-5f3c1a2e-0000-4000-8000-000000000001"


def later(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def check(**changes: Any) -> Check:
    known: dict[str, Any] = {
        "id": "compute",
        "level": 4,
        "subject": "rank 1 in pod w-1",
        "expected": "a product with right numbers on its GPU",
        "observed": f"cuda:0 {UUID}, numbers WRONG by 0.7",
        "verdict": Verdict.FAILED,
        "next_step": "wrong numbers mean a bad device",
        "facts": {"pod": "w-1", "rank": 1},
    }
    return Check(**{**known, **changes})


PLACE = check(id="gpu-count", level=3, verdict=Verdict.PASSED, facts={"pod": "w-1", "node": "gpu-1"}, observed="1")


def failed(*checks: Check) -> VerificationFailed:
    every = checks or (PLACE, check())
    return VerificationFailed(
        "Verification failed", which="on team-a/rf-1", diagnosis=diagnosis_from_checks(every), checks=every
    )


def alert(run: Run = RUN, **changes: Any) -> Alert:
    link = Link(name="matrix", url="s3://bucket/run/verification.json")
    return problem(failed(PLACE, check(**changes)), run=run, at=NOW, links=[link], cluster="rf-1")


class Memory:
    """The store of a test. ``losing``: how many races are lost before one is won."""

    def __init__(self, losing: int = 0) -> None:
        self.values: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self.losing = losing

    async def keys(self) -> Sequence[str]:
        return sorted(self.values)

    async def read(self, key: str) -> tuple[int, Mapping[str, Any] | None]:
        return self.values.get(key, (0, None))

    async def compare_and_set(self, key: str, version: int, data: Mapping[str, Any]) -> bool:
        now, _ = self.values.get(key, (0, None))
        if self.losing or version != now:
            self.losing = max(0, self.losing - 1)
            return False
        self.values[key] = (version + 1, dict(data))
        return True

    async def forget(self, key: str) -> None:
        del self.values[key]
