"""On a real Airflow: callbacks in their processes reach real receivers, metrics leave, a verified pool starts a DAG."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from dev.airflow_home import Settings
from dev.airflow_instance import Airflow
from dev.airflow_process import wait_until
from tests import receivers

DAGS = Path(__file__).parent / "dags"


class Collector(BaseHTTPRequestHandler):
    """An OpenTelemetry collector that remembers names and tags."""

    server: Any

    def do_POST(self) -> None:
        request = ExportMetricsServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    for point in getattr(metric, kind).data_points:
                        tags = {item.key: item.value.string_value for item in point.attributes}
                        self.server.seen.append((metric.name, tags))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Nothing to say."""


@contextmanager
def collector() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Airflow, Any, Any, Any]]:
    with receivers.smtp() as mail, receivers.http() as hook, collector() as metrics:
        extra = {"disable_ssl": True, "disable_tls": True, "from_email": "a@example.com", "to": "duty@example.com"}
        settings = Settings(
            dag_folders=[DAGS],
            connections={
                "duty_mail": {"conn_type": "smtp", "host": "127.0.0.1", "port": mail.server_address[1], "extra": extra},
                "duty_hook": {"conn_type": "http", "host": "127.0.0.1", "port": hook.server_address[1]},
                "nobody_there": {"conn_type": "http", "host": "127.0.0.1", "port": 9},
            },
            environment={
                "AIRFLOW__METRICS__OTEL_ON": "True",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{metrics.server_address[1]}",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_METRIC_EXPORT_INTERVAL": "2000",
            },
        )
        with Airflow(settings) as airflow:
            airflow.client.wait_for_dag("alerting")
            yield airflow, mail, hook, metrics


def test_one_fault_one_message_a_recovery_and_a_dag_that_starts_on_it(world: Any) -> None:
    airflow, mail, hook, metrics = world
    airflow.client.unpause("waits_for_pool")
    for bad, state in ((True, "failed"), (True, "failed"), (False, "success")):
        run = airflow.client.trigger("alerting", {"bad": bad})
        assert airflow.client.wait_for_run(run, 60) == state
    kinds = [body["kind"] for _, _, body in hook.posts]
    assert kinds == ["problem", "recovery"]
    assert [mail["Subject"] for mail in mail.mails] == [
        "alerting: Verification level 4 failed: compute",
        "Good again: alerting: Verification level 4 failed: compute (2 times)",
    ]
    assert "/dags/alerting/runs/" in hook.posts[0][2]["run"]["url"]
    wanted = ("airflow.rayflight.alerts", {"channel": "nobody_there", "result": "broken"})
    assert wait_until(lambda: wanted in metrics.seen, 20)
    causes = {"stage": "verify", "cause": "verification-compute"}
    assert ("airflow.rayflight.task.failures", causes) in metrics.seen
    assert wait_until(lambda: _runs(airflow, "waits_for_pool") == ["success"], 40)


def test_a_deadline_speaks_from_the_triggerer_and_a_failed_dag_from_its_processor(world: Any) -> None:
    airflow, _, hook, metrics = world
    before = len(hook.posts)
    run = airflow.client.trigger("late")
    assert airflow.client.wait_for_run(run, 90) == "failed"
    assert wait_until(lambda: len(hook.posts) == before + 2, 60)
    causes = {body["cause"]: body for _, _, body in hook.posts[before:]}
    assert set(causes) == {"deadline-missed", "failure"}
    assert causes["failure"]["what"] == "task failure"
    assert wait_until(lambda: sum(tags.get("channel") == "duty_hook" for _, tags in metrics.seen) >= 2, 20)


def _runs(airflow: Airflow, dag_id: str) -> list[str]:
    return [run["state"] for run in airflow.client._get(f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]]
