"""What a task tells Airflow's metrics and assets: stable names, complete tags, and nothing when there is no name."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG

from rayflight import errors
from rayflight.airflow import metrics, outcomes, training_run, verified_pool
from rayflight.airflow.operators import VerifyRayCluster
from rayflight.airflow.sensors import RayClusterReadySensor
from rayflight.findings import Diagnosis
from tests.fake_context import FakeTaskInstance, a_context
from tests.unit.alerts.faults import check, failed
from tests.world import SHAPE, flight


class Exporter:
    """Airflow's metrics interface as the task sees it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any, dict[str, str]]] = []

    def incr(self, name: str, count: int, *, tags: dict[str, str]) -> None:
        self.sent.append((name, count, tags))

    def timing(self, name: str, dt: Any, *, tags: dict[str, str]) -> None:
        self.sent.append((name, dt.total_seconds(), tags))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Exporter:
    made = Exporter()
    monkeypatch.setattr(metrics, "_stats", lambda: made)
    return made


def operator() -> VerifyRayCluster:
    return VerifyRayCluster(task_id="verify", flight={**flight().to_dict(), "spec": {"name": "gpu-2x1", "groups": []}})


RESULT = {
    "cluster": {"name": "rf-1"},
    "checks": [{"id": "compute", "verdict": "not applicable", "level": 4, "subject": "s", "observed": "o",
                "expected": "e", "facts": {"node": "gpu-1"}}],
}  # fmt: skip


class Events(dict[Any, Any]):
    """Airflow's accessor of outlet events."""

    def add(self, asset: Any, *, extra: dict[str, Any]) -> None:
        self[asset.uri] = extra

    def __missing__(self, alias: Any) -> Events:
        assert alias.name == "rayflight-verified"
        return self


def test_a_passed_verification_counts_its_rows_and_updates_the_asset_of_its_shape(exporter: Exporter) -> None:
    events = Events()
    context = a_context()
    context["outlet_events"] = events
    operator().finish(context, RESULT)
    assert exporter.sent == [
        ("rayflight.verification.checks", 1, {"check": "compute", "verdict": "not_applicable"}),
        ("rayflight.verification.runs", 1, {"result": "passed"}),
    ]
    assert events[verified_pool("gpu-2x1").uri]["nodes"] == ["gpu-1"]


def test_a_verification_that_failed_and_goes_on_says_so_and_announces_no_pool(exporter: Exporter) -> None:
    events = Events()
    context = a_context()
    context["outlet_events"] = events
    rows = [{**RESULT["checks"][0], "verdict": "failed"}]  # type: ignore[index]
    found = operator().finish(context, {**RESULT, "checks": rows})
    assert found["verdict"] == "failed, and goes on"
    assert ("rayflight.verification.runs", 1, {"result": "failed"}) in exporter.sent
    assert events == {}


@pytest.mark.parametrize(
    ("task", "planned", "expected"), [(None, "warn", "warn"), ("replace", "warn", "replace"), ("", "", "fail")]
)
def test_a_task_may_be_told_otherwise_than_the_flight(task: str | None, planned: str, expected: str) -> None:
    data = flight(on_fail=planned).to_dict()
    assert VerifyRayCluster(task_id="verify", flight=data, on_fail=task).the_flight().when_unverified == expected


def test_a_word_that_means_nothing_is_refused() -> None:
    with pytest.raises(errors.InvalidSpec, match="'ignore' is none of fail, warn, replace"):
        VerifyRayCluster(task_id="verify", flight=flight().to_dict(), on_fail="ignore").the_flight()


def test_a_failed_verification_counts_rows_and_cause_and_updates_no_asset(exporter: Exporter) -> None:
    with pytest.raises(errors.VerificationFailed):
        operator().resume(a_context(), outcomes.failure(failed(check())))
    assert ("rayflight.task.failures", 1, {"stage": "verify", "cause": "verification-compute"}) in exporter.sent
    assert ("rayflight.verification.runs", 1, {"result": "failed"}) in exporter.sent


def test_the_time_to_ready_is_told_where_it_is_known(exporter: Exporter) -> None:
    sensor = RayClusterReadySensor(task_id="wait_ready", flight=flight().to_dict())
    sensor.finish(a_context(), {"cluster": {}, "times": {"ready": 41.5, "queued": 12.0}})
    sensor.finish(a_context(), {"cluster": {}})
    assert exporter.sent == [
        ("rayflight.cluster.ready_time", 41.5, {"dag_id": "train"}),
        ("rayflight.cluster.queue_time", 12.0, {"dag_id": "train"}),
    ]


def test_gpu_seconds_without_a_training_that_succeeded_are_wasted(exporter: Exporter) -> None:
    metrics.landed(a_context(), {"gpu_seconds": 100.0}, simulated=False, useful=60.0)
    assert [(name, value) for name, value, _ in exporter.sent] == [
        ("rayflight.gpu.held_seconds", 100),
        ("rayflight.gpu.wasted_seconds", 40),
    ]


def test_an_unknown_cause_is_called_unknown(exporter: Exporter) -> None:
    error = errors.JobFailed("x", diagnosis=Diagnosis(verdict="unknown"))
    metrics.failed(error, stage="train", training=True)
    assert ("rayflight.job.outcomes", 1, {"outcome": "failed", "cause": "unknown"}) in exporter.sent


def test_an_exporter_in_trouble_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_stats", object)
    metrics.count(metrics.VERIFICATIONS, result="passed")


def test_a_metric_with_other_tags_than_its_own_is_a_mistake(exporter: Exporter) -> None:
    with pytest.raises(ValueError, match="has the tags"):
        metrics.count(metrics.JOBS, outcome="failed")


class Landed(FakeTaskInstance):
    """A teardown's task instance; XCom knows what the training returned."""

    def xcom_pull(self, *, task_ids: str, map_indexes: int) -> Any:
        assert task_ids == "flight.train"
        return {"started_at": "2026-12-01T10:00:00Z", "ended_at": "2026-12-01T10:01:00Z"}


def test_a_teardown_subtracts_the_training_that_succeeded_from_what_was_held(exporter: Exporter) -> None:
    with DAG("train") as dag:
        training_run(cluster="gpu-2x1", job={"entrypoint": "python x.py"})
    operator = dag.get_task("flight.tear_down")
    operator.flight = {**flight().to_dict(), "spec": {**SHAPE, "simulated": True}}
    operator.finish({"ti": Landed(task_id="flight.tear_down")}, {"gpu_seconds": 300.0})
    assert exporter.sent == [
        ("rayflight.gpu.held_seconds", 300, {"dag_id": "train", "simulated": "true"}),
        ("rayflight.gpu.wasted_seconds", 180, {"dag_id": "train", "simulated": "true"}),
    ]
    exporter.sent.clear()
    operator.finish({"ti": Landed()}, {"gpu_seconds": 300.0, "kept": ["ns/x"]})
    assert exporter.sent == []
    operator.finish({"ti": FakeTaskInstance()}, {"gpu_seconds": 300.0})  # whose XCom does not answer
    assert exporter.sent == []
