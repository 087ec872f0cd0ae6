"""`make up` on an Airflow that is up: what died is started again, and what cannot be done is said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from dev import quickstart, quickstart_connection, quickstart_processes, quickstart_repair
from dev.airflow_client import AirflowClient
from dev.airflow_home import AirflowHome, Settings
from dev.airflow_instance import COMMANDS
from dev.airflow_process import Component

ALL_WELL = dict.fromkeys(("metadatabase", "scheduler", "triggerer", "dag_processor"), "healthy")


class Api(ThreadingHTTPServer):
    """Airflow's REST API, as far as it is asked here; refuses everything else."""

    def __init__(self) -> None:
        self.health = dict(ALL_WELL)
        self.connections: dict[str, dict[str, str]] = {}
        super().__init__(("127.0.0.1", 0), Answers)


class Answers(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        if self.path == "/api/v2/monitor/health":
            return self.say(200, {name: {"status": status} for name, status in self.server.health.items()})
        found = self.server.connections.get(self.path.removeprefix("/api/v2/connections/"))
        return self.say(200, found) if found else self.say(404, {"detail": "not found"})

    def do_POST(self) -> None:
        given = self.given()
        if self.path == "/auth/token":
            return self.say(201, {"access_token": "t"})
        assert self.path == "/api/v2/connections"
        self.server.connections[given["connection_id"]] = given
        return self.say(201, given)

    def do_PATCH(self) -> None:
        given = self.given()
        assert self.path == f"/api/v2/connections/{given['connection_id']}?update_mask=extra"
        self.server.connections[given["connection_id"]] |= given
        self.say(200, given)

    def given(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return found

    def say(self, status: int, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path, api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An Airflow that is up: its components are programs of the same names that do nothing."""
    monkeypatch.setattr(quickstart_repair, "PATIENCE", 5.0)
    monkeypatch.setattr(quickstart_repair, "SETTLING", 1.0)
    monkeypatch.setattr("dev.airflow_process.shutil.which", lambda _: None)
    home = tmp_path / "airflow"
    (home / "processes").mkdir(parents=True)
    (tmp_path / "programs" / "airflow").mkdir(parents=True)
    (tmp_path / "programs" / "airflow" / "__init__.py").touch()  # or else the real one would be taken
    program = tmp_path / "programs" / "airflow" / "__main__.py"
    program.write_text("import os, sys, time\nsys.exit('broken') if 'BROKEN' in os.environ else time.sleep(60)\n")
    environment = {"PYTHONPATH": str(tmp_path / "programs"), "AIRFLOW_HOME": str(home)}
    for name, words in COMMANDS.items():
        started = Component(name, words, environment=environment, log=home / "processes" / f"{name}.log")
        quickstart_processes.note(home, started)
    told = {"url": f"http://127.0.0.1:{api.server_port}", "password": "secret", "environment": environment}
    (tmp_path / "up.json").write_text(json.dumps(told))
    yield tmp_path
    quickstart_processes.end(home)


def kill(folder: Path, name: str) -> None:
    notes = [json.loads(line) for line in (folder / "airflow" / "processes.jsonl").read_text().splitlines()]
    process = psutil.Process(next(item["pid"] for item in notes if item["name"] == name))
    process.kill()
    process.wait()


def up(folder: Path, *words: str) -> int:
    return quickstart.main(["up", "--folder", str(folder), *words])


def test_a_component_that_died_is_started_again(folder, capsys):
    kill(folder, "triggerer")
    assert up(folder) == 0
    assert "up already, with triggerer started again: http://" in capsys.readouterr().out
    assert quickstart_processes.components(folder / "airflow") == dict.fromkeys(COMMANDS, True)


def test_a_component_that_dies_again_is_named_with_what_to_do(folder, capsys):
    told = json.loads((folder / "up.json").read_text())
    told["environment"]["BROKEN"] = "yes"
    (folder / "up.json").write_text(json.dumps(told))
    kill(folder, "scheduler")
    assert up(folder) == 1
    said = capsys.readouterr().err
    assert "not healthy: scheduler ended at once again. Next: see the logs in" in said


def test_a_component_that_lives_and_says_nothing_is_named(folder, api, capsys, monkeypatch):
    monkeypatch.setattr(quickstart_repair, "PATIENCE", 0.0)
    api.health["dag_processor"] = "unhealthy"
    assert up(folder) == 1
    assert "not healthy: dag-processor is unhealthy. Next:" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["up", "demo"])
def test_another_port_than_that_of_the_airflow_that_is_up_is_refused(folder, api, capsys, command):
    assert quickstart.main([command, "--folder", str(folder), "--port", "8099"]) == 1
    said = capsys.readouterr().err
    assert f"not on port 8099: http://127.0.0.1:{api.server_port}" in said
    assert "`make down` and then `make up PORT=8099`" in said
    assert up(folder, "--port", str(api.server_port)) == 0


def test_the_connection_is_made_where_a_person_can_change_it(folder, api, capsys):
    assert up(folder) == 0
    made = api.connections["kubernetes_default"]
    assert (made["conn_type"], json.loads(made["extra"])["backend"]) == ("rayflight", "local")
    assert up(folder, "--network", "host") == 0
    assert json.loads(api.connections["kubernetes_default"]["extra"])["network"] == "host"
    assert up(folder) == 0
    assert json.loads(api.connections["kubernetes_default"]["extra"])["network"] == "host"
    assert "airflow.sh connections list" in capsys.readouterr().out


def test_a_connection_that_a_person_changed_stays_and_the_demo_does_not_fly_there(folder, api, capsys):
    api.connections["kubernetes_default"] = theirs = {"conn_type": "kubernetes", "extra": '{"namespace": "ml"}'}
    assert up(folder) == 0
    assert api.connections["kubernetes_default"] is theirs
    assert "is not this machine any more" in capsys.readouterr().out
    assert quickstart.main(["demo", "--folder", str(folder)]) == 1
    assert "leads away from this machine, where `make demo` flies. Next:" in capsys.readouterr().err


def test_flights_on_one_airflow_do_not_wait_for_each_other(folder):
    with quickstart._alone(folder):
        told = quickstart._told(folder)
        assert told is not None
        assert quickstart._mended(folder, told) == ""


def test_what_is_stopped_leaves_no_secrets(folder):
    (folder / "airflow.sh").touch()
    assert quickstart.main(["down", "--folder", str(folder)]) == 0
    assert not (folder / "airflow.sh").exists()
    assert not (folder / "up.json").exists()


def test_the_database_can_be_read_after_a_restart(tmp_path):
    """What a person saved in the UI is encrypted with the key of the first start."""
    first, second = (AirflowHome(tmp_path / "airflow", Settings()) for _ in range(2))
    assert first.own["AIRFLOW__CORE__FERNET_KEY"] == second.own["AIRFLOW__CORE__FERNET_KEY"]
    assert (tmp_path / "airflow" / "fernet.key").stat().st_mode & 0o777 == 0o600


def test_only_an_airflow_for_one_flight_has_the_connection_in_its_environment(tmp_path):
    for keep in (True, False):
        options = quickstart._parser().parse_args(["up", "--folder", str(tmp_path)])
        own = quickstart._make(options, keep=keep).home.own
        assert ("AIRFLOW_CONN_KUBERNETES_DEFAULT" in own) is not keep
        assert own["AIRFLOW__CORE__TEST_CONNECTION"] == "Enabled"
    assert quickstart_connection.ID == "kubernetes_default"


def test_an_api_that_does_not_answer_is_said():
    client = AirflowClient("http://127.0.0.1:1", "admin", "x")
    assert quickstart_repair._silent(client) == ["its API server does not answer"]
