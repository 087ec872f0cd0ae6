"""One alert for one fault reaches real receivers; a broken channel fails nothing; good again is said once."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from rayflight.airflow import RayflightNotifier, sending
from rayflight.airflow.operators import SubmitRayJob, VerifyRayCluster
from rayflight.airflow.telling import listeners, told
from rayflight.errors import InvalidSpec
from rayflight.findings import Check
from tests import receivers
from tests.fake_context import FakeTaskInstance
from tests.unit.alerts.faults import PLACE, UUID, check, failed


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RAYFLIGHT__ARCHIVE", f"file://{tmp_path}/archive")
    return tmp_path / "archive"


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with receivers.smtp() as server:
        extra = {
            "disable_ssl": True,
            "disable_tls": True,
            "from_email": "airflow@example.com",
            "to": "duty@example.com",
        }
        connect(monkeypatch, "mail", conn_type="smtp", host="127.0.0.1", port=server.server_address[1], extra=extra)
        yield server


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with receivers.http() as server:
        extra = {"X-Team": "gpu"}
        connect(monkeypatch, "hook", conn_type="http", host="127.0.0.1", port=server.server_address[1], extra=extra)
        yield server


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


class Verified(FakeTaskInstance):
    """A task of which XCom knows what it returned."""

    rows: tuple[Check, ...] = ()

    def xcom_pull(self, *, task_ids: str, map_indexes: int, key: str = "return_value") -> Any:
        return {"checks": [asdict(it) for it in self.rows]} if key == "return_value" else None


def context(error: BaseException | None, *rows: Check) -> Any:
    ti = Verified(task_id="flight.verify", dag_id="train", run_id="r1")
    ti.rows = rows
    return {"ti": ti, "exception": error, "task": VerifyRayCluster(task_id="verify", flight={})}


def test_one_fault_is_one_message_per_channel_and_good_again_is_said_once(mail: Any, hook: Any) -> None:
    alerts = RayflightNotifier(["mail", "hook"])
    for _ in range(3):
        alerts(context(failed()))
    assert (len(mail.mails), len(hook.posts)) == (1, 1)
    assert mail.mails[0]["Subject"] == "train: Verification level 4 failed: compute on node gpu-1"
    assert UUID in receivers.html_of(mail.mails[0])
    _, headers, body = hook.posts[0]
    assert headers["X-Team"] == "gpu"
    assert (body["where"]["node"], body["where"]["gpus"]) == ("gpu-1", [UUID])
    alerts(context(None, PLACE, check(verdict="unknown")))  # passed, but nobody saw this
    assert len(hook.posts) == 1
    for _ in range(2):
        alerts(context(None, PLACE, check(verdict="passed")))
    assert [post[2]["kind"] for post in hook.posts] == ["problem", "recovery"]
    assert mail.mails[1]["Subject"].startswith("Good again: ")
    assert "(3 times)" in mail.mails[1]["Subject"]


def test_what_failed_and_was_to_be_warned_about_is_told_though_the_task_succeeded(hook: Any) -> None:
    alerts = RayflightNotifier(["hook"])
    alerts(context(None, PLACE, check()))
    ((_, _, body),) = hook.posts
    assert (body["kind"], body["cause"], body["where"]["node"]) == ("problem", "verification-compute", "gpu-1")


class Trained(FakeTaskInstance):
    """A training during which a device fell ill."""

    until: str | None = None

    def xcom_pull(self, *, task_ids: str, map_indexes: int, key: str = "return_value") -> Any:
        ill = check(id="gpu-healthy", level=3, facts={"pod": "w-1", "node": "gpu-1"}, observed=f"Unhealthy: {UUID}")
        return (
            {"watched": [{**asdict(ill), "since": "2026-12-01T10:00:00Z", "until": self.until}]}
            if key == "return_value"
            else None
        )


@pytest.mark.parametrize("until", [None, "2026-12-01T10:05:00Z"])
def test_a_device_that_fell_ill_in_a_training_that_succeeded_is_told_unless_it_healed(
    until: str | None, hook: Any
) -> None:
    ti = Trained(task_id="flight.train", dag_id="train", run_id="r1")
    ti.until = until
    RayflightNotifier(["hook"])({"ti": ti, "exception": None, "task": None})
    told = [(body["cause"], body["where"]["gpus"]) for _, _, body in hook.posts]
    assert told == ([] if until else [("verification-gpu-healthy", [UUID])])


async def test_whoever_is_told_of_a_failed_training_is_told_of_a_device_that_falls_ill_while_it_runs(hook: Any) -> None:
    ti = FakeTaskInstance(task_id="flight.train", dag_id="train", run_id="r1")
    task = SubmitRayJob(task_id="train", flight={}, on_failure_callback=RayflightNotifier(["hook"]))
    given = json.loads(json.dumps(listeners(task, {"ti": ti})))  # type: ignore[typeddict-item]
    tell = told({**given, "cluster": {"name": "rf-1"}})
    ill = check(id="gpu-healthy", level=3, facts={"pod": "w-1", "node": "gpu-1"}, observed=f"Unhealthy: {UUID}")
    assert tell is not None
    for _ in range(2):
        await tell([ill])
    ((_, _, body),) = hook.posts
    assert (body["cause"], body["where"]["gpus"]) == ("verification-gpu-healthy", [UUID])
    assert (body["run"]["task_id"], body["where"]["cluster"]) == ("flight.train", "rf-1")
    assert told(listeners(SubmitRayJob(task_id="quiet", flight={}), {"ti": ti})) is None  # type: ignore[typeddict-item]


def test_a_broken_channel_fails_nothing_and_keeps_nobody_waiting(
    hook: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sending, "send", lambda *args, send=sending.send: send(*args, seconds=1.0))
    with receivers.silent() as port, receivers.http(status=500) as sick:
        connect(monkeypatch, "silent", conn_type="http", host="127.0.0.1", port=port)
        connect(monkeypatch, "sick", conn_type="http", host="127.0.0.1", port=sick.server_address[1])
        connect(monkeypatch, "slack", conn_type="slackwebhook", password="T0/B0/secretsecret")
        channels = ["silent", "sick", "absent", "slack", "hook"]
        with caplog.at_level(logging.WARNING):
            RayflightNotifier(channels)(context(failed()))
    assert len(hook.posts) == 1
    for conn_id in channels[:-1]:
        assert f"through {conn_id}: " in caplog.text
    assert "install apache-airflow-providers-slack" in caplog.text
    assert "secretsecret" not in caplog.text


def test_a_message_that_no_channel_took_is_sent_at_the_next_occurrence(
    hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    RayflightNotifier(["absent"])(context(failed()))
    RayflightNotifier(["hook"])(context(failed()))
    assert len(hook.posts) == 1


def test_without_a_store_the_alert_goes_out_anyway(hook: Any, archive: Path) -> None:
    archive.write_text("in the way")
    for _ in range(2):
        RayflightNotifier(["hook"])(context(failed()))
    assert len(hook.posts) == 2


async def test_a_missed_deadline_is_said_from_the_triggerer(hook: Any, mail: Any) -> None:
    due = {"id": "x", "deadline_time": "2026-12-01T10:00:00+00:00"}
    given = {"dag_run": {"dag_id": "train", "dag_run_id": "r/1"}, "deadline": due}
    await RayflightNotifier(channels=["hook", "mail"], context=given)
    (_, _, body), (sent,) = hook.posts[0], mail.mails
    assert (body["cause"], body["title"]) == ("deadline-missed", "train is late")
    assert "/dags/train/runs/r" in body["run"]["url"]
    assert sent["Subject"] == "train is late"


def test_a_callback_of_a_dag_tells_what_the_run_left_in_its_archive(hook: Any, archive: Path) -> None:
    folder = archive / "train" / "r1" / "flight" / "attempt-2" / "rf-train-a2"
    folder.mkdir(parents=True)
    rows = [asdict(row) for row in (PLACE, check())]
    (folder / "verification.json").write_text(json.dumps({"checks": rows}, default=str))
    RayflightNotifier(["hook"])({"dag": DAG("train"), "run_id": "r1", "reason": "task_failure"})
    ((_, _, body),) = hook.posts
    assert (body["cause"], body["where"]["node"], body["run"]["task_id"]) == ("verification-compute", "gpu-1", "")
    assert {link["name"] for link in body["links"]} == {"Matrix", "Archive"}


def test_teams_gets_a_card_at_its_endpoint(hook: Any) -> None:
    RayflightNotifier([{"conn_id": "hook", "form": "teams", "endpoint": "/workflows/1?sig=x"}])(context(failed()))
    path, _, body = hook.posts[0]
    assert path == "/workflows/1?sig=x"
    assert body["attachments"][0]["content"]["type"] == "AdaptiveCard"


@pytest.mark.parametrize("channel", [{"conn_id": "x", "form": "xml"}, {"conn_id": "x", "tone": "loud"}])
def test_a_channel_that_cannot_be_is_refused_when_the_dag_is_read(channel: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match=r"docs/alerts.md"):
        RayflightNotifier([channel])
