"""The compose file itself: old and new Compose take it, and it says no secret."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dev.airflow_home import ROOT
from dev.compose.docker import run

# The parser of `docker compose` (Compose 2), as a module: the plugin itself is in no package registry.
COMPOSE_GO = "github.com/compose-spec/compose-go/v2/cmd@v2.10.0"


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    run(["sh", "docker/make-env.sh", str(tmp_path / "env")], {}, folder=ROOT)
    return tmp_path / "env"


def test_secrets_are_made_once_and_for_their_owner_only(env_file: Path):
    made = env_file.read_text()
    assert env_file.stat().st_mode & 0o777 == 0o600
    env_file.write_text(made.rstrip("\n") + "\nAIRFLOW_PORT=9090")
    run(["sh", "docker/make-env.sh", str(env_file)], {}, folder=ROOT)
    assert env_file.read_text() == made.rstrip("\n") + "\nAIRFLOW_PORT=9090"
    second = env_file.with_name("second")
    run(["sh", "docker/make-env.sh", str(second)], {}, folder=ROOT)
    theirs = dict(line.split("=", 1) for line in second.read_text().splitlines())
    ours = dict(line.split("=", 1) for line in made.splitlines())
    same = {name for name, value in ours.items() if theirs[name] == value}
    assert same == {"COMPOSE_PROJECT_NAME"}


def test_a_secret_that_an_edited_file_lacks_is_added_on_a_line_of_its_own(tmp_path: Path):
    file = tmp_path / "env"
    file.write_text("AIRFLOW_PORT=9090")
    run(["sh", "docker/make-env.sh", str(file)], {}, folder=ROOT)
    lines = file.read_text().splitlines()
    assert lines[0] == "AIRFLOW_PORT=9090"
    assert all("=" in line for line in lines)


def test_without_secrets_it_is_refused_with_the_next_step(tmp_path: Path):
    empty = tmp_path / "env"
    empty.write_text("")
    with pytest.raises(RuntimeError, match=r"(?s)sh docker/make-env\.sh"):
        old_compose(empty, "config", "--quiet")


def test_old_and_new_compose_understand_the_same(env_file: Path):
    old = yaml.safe_load(old_compose(env_file, "--profile", "k3s", "config"))
    new = yaml.safe_load(new_compose())
    assert old["services"].keys() == new["services"].keys()
    for name, service in new["services"].items():
        theirs = old["services"][name]
        assert service.get("healthcheck", {}).keys() == theirs.get("healthcheck", {}).keys()
        assert service.get("environment", {}).keys() == theirs.get("environment", {}).keys()
        assert service["mem_limit"]


def old_compose(env_file: Path, *words: str) -> str:
    where = ["--file", str(ROOT / "docker-compose.yaml"), "--env-file", str(env_file)]
    return run(["docker-compose", *where, *words], {}, folder=ROOT)


def new_compose() -> str:
    """This command reads no variables: the expressions stay as they are."""
    return run(["go", "run", COMPOSE_GO, "-no-interpolation", str(ROOT / "docker-compose.yaml")], {})
