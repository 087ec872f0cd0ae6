"""Airflow as docker-compose.yaml brings it up flies the demo, loses nothing on restarts, and goes without a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dev.airflow_client import Run
from dev.airflow_process import wait_until
from dev.cluster import Cluster
from dev.compose.composed import SERVICES, Composed
from dev.compose.docker import Docker
from dev.place import Place

INSTANCE = "compose-tests"
LINES = 300
EPOCHS = 40  # of a second each: long enough for a restart in between


def test_every_service_is_healthy_and_no_more_than_it_has_to_be(composed: Composed):
    for name in SERVICES:
        found = composed.inspect(name)
        host = found["HostConfig"]
        assert found["State"]["Health"]["Status"] == "healthy"
        assert found["Config"]["User"] == ("postgres" if name == "postgres" else "50000:0")
        assert host["RestartPolicy"]["Name"] == "unless-stopped"
        assert host["Memory"] > 0
        assert host["NanoCpus"] > 0
        assert host["CapDrop"] == ["ALL"]
        assert not host["Privileged"]
        project = [mount for mount in found["Mounts"] if mount["Type"] == "bind"]
        assert not any(mount["RW"] for mount in project)


def test_it_listens_on_loopback_alone(composed: Composed):
    bindings = [composed.inspect(name)["HostConfig"]["PortBindings"] or {} for name in SERVICES]
    addresses = {place["HostIp"] for ports in bindings for places in ports.values() for place in places}
    assert addresses == {"127.0.0.1"}


def test_no_secret_is_in_the_image(composed: Composed, daemon: Docker):
    image = daemon("image", "inspect", "rayflight-airflow:3.3.2") + daemon(
        "history", "--no-trunc", "rayflight-airflow:3.3.2"
    )
    secrets = [value for name, value in composed.secrets.items() if re.search("PASSWORD|KEY|SECRET|TOKEN", name)]
    assert len(secrets) == 6
    assert not [value for value in secrets if value in image]


def test_airflow_sees_the_dags_and_nothing_is_wrong_with_them(composed: Composed):
    for dag_id in ("train_ddp", "verify_gpu_pool", "rayflight_janitor"):
        composed.client.wait_for_dag(dag_id)
    providers = composed("exec", "-T", "airflow-scheduler", "airflow", "providers", "list", "--output", "plain")
    assert "rayflight" in providers


@pytest.fixture
def flown(composed: Composed, cluster: Cluster) -> Iterator[list[Run]]:
    """Runs of the test; afterwards none of them flies."""
    runs: list[Run] = []
    yield runs
    composed.wait_healthy()
    composed.client.sign_in()
    for run in runs:
        if composed.client.run_state(run) not in ("success", "failed"):
            composed.client.mark_run(run)
            wait_until(lambda run=run: not cluster.owned_by(run, INSTANCE), 60, every=1)  # type: ignore[misc]


def test_the_demo_flies(composed: Composed, cluster: Cluster, place: Place, flown: list[Run]):
    run = composed.client.trigger("train_ddp", {"image": place.image})
    flown.append(run)
    assert landed(composed, run) == "success", told(composed, run)
    assert composed.client.xcom(run, "flight.verify")["verdict"] == "passed"
    assert composed.client.xcom(run, "flight.train")["metrics"]["accuracy"] >= 0.95
    assert composed.client.xcom(run, "flight.collect_logs")["missing"] == []
    assert cluster.owned_by(run, INSTANCE) == []


@pytest.mark.parametrize("service", SERVICES)
def test_a_restart_in_mid_run_loses_nothing(
    composed: Composed, cluster: Cluster, place: Place, flown: list[Run], service: str
):
    conf = {"image": place.image, "workers": 1, "verify": False, "epochs": EPOCHS}
    run = composed.client.trigger("train_ddp", conf | {"script_args": f"--seconds-per-epoch 1 --log-lines {LINES}"})
    flown.append(run)
    assert wait_until(lambda: epochs(composed, run) >= 2, 150, every=1), told(composed, run)
    before = composed.state(service)["StartedAt"]
    assert composed.client.task(run, "flight.train").state == "deferred"
    composed("restart", service)
    composed.wait_healthy()
    assert composed.state(service)["StartedAt"] > before
    assert landed(composed, run) == "success", told(composed, run)
    assert composed.client.task(run, "flight.train").try_number == 1
    assert epochs(composed, run) >= EPOCHS
    assert lines(composed, run) == list(range(1, LINES + 1))
    assert cluster.owned_by(run, INSTANCE) == []


def test_what_was_flown_is_there_after_down_and_up(composed: Composed):
    run = composed.client.trigger("train_ddp", {"shape": "no-such-shape"})
    assert landed(composed, run) == "failed"
    before = composed.client.runs("train_ddp")
    assert run.run_id in before
    composed("down")
    composed.up()
    assert composed.client.runs("train_ddp") == before


def test_down_leaves_nothing(composed: Composed, daemon: Docker):
    composed("down", "--volumes")
    assert {kind: daemon.ids(kind) for kind in ("container", "network", "volume")} == {
        "container": [],
        "network": [],
        "volume": [],
    }


def landed(composed: Composed, run: Run) -> str:
    return composed.client.wait_for_run(run, 300)


def epochs(composed: Composed, run: Run) -> int:
    try:
        return composed.client.log(run, "flight.train").count("RAYFLIGHT_PROGRESS")
    except RuntimeError:
        return 0  # no log yet


def lines(composed: Composed, run: Run) -> list[int]:
    """The numbered lines of the driver, as the archive has them."""
    archive = composed.client.xcom(run, "flight.plan")["archive"].removeprefix("file://")
    script = f"cat $(find '{archive}' -path '*/driver/*/*.log' | sort)"
    log = composed("exec", "-T", "airflow-api-server", "bash", "-c", script)
    return [int(number) for number in re.findall(rf"log line (\d+) of {LINES}", log)]


def told(composed: Composed, run: Run) -> str:
    tasks = composed.client.tasks(run)
    failed = [composed.client.failure(run, task) for task in tasks if task.state in ("failed", "up_for_retry")]
    return "\n".join([", ".join(f"{task.name}={task.state}" for task in tasks), *failed])
