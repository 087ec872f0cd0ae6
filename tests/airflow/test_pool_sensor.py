"""A DAG can wait for a pool to be good: the sensor reads what verifications left, and says what it waits for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from rayflight.airflow import PoolGoodSensor


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RAYFLIGHT__ARCHIVE", f"file://{tmp_path}/archive")
    return tmp_path / "archive"


def verified(archive: Path, node: str, verdict: str, *, hours_ago: float, shape: str = "gpu-2x1") -> None:
    at = (datetime.now(UTC) - timedelta(hours=hours_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    folder = archive / "fleet" / node
    folder.mkdir(parents=True, exist_ok=True)
    document = {"at": at, "node": node, "shape": shape, "verdict": verdict, "failed": [], "gpus": []}
    (folder / f"{at.replace(':', '')}-x.json").write_text(json.dumps(document))


def test_it_waits_until_the_newest_verification_of_every_node_passed(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sensor = PoolGoodSensor(task_id="good", shape="gpu-2x1", at_least="2")
    assert sensor.poke({}) is False
    assert "0 of 2 nodes were verified since" in capsys.readouterr().out
    verified(archive, "gpu-1", "passed", hours_ago=3)
    verified(archive, "gpu-2", "failed", hours_ago=2)
    assert sensor.poke({}) is False
    assert "node gpu-2 failed at" in capsys.readouterr().out
    verified(archive, "gpu-2", "passed", hours_ago=1)
    assert sensor.poke({}) is True


def test_what_is_too_old_or_of_another_shape_does_not_count(archive: Path) -> None:
    verified(archive, "gpu-1", "passed", hours_ago=30)
    verified(archive, "gpu-1", "passed", hours_ago=1, shape="other")
    assert PoolGoodSensor(task_id="good", shape="gpu-2x1").poke({}) is False
    assert PoolGoodSensor(task_id="good", shape="gpu-2x1", within=timedelta(days=2)).poke({}) is True


def test_it_frees_its_slot_between_two_looks_and_can_be_serialised() -> None:
    with DAG("waits") as dag:
        PoolGoodSensor(task_id="good", nodes=["gpu-1"])
    assert dag.get_task("good").mode == "reschedule"
    assert DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_ids == ["good"]
