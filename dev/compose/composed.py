"""docker-compose.yaml brought up on a Docker of our own, with secrets of its own; asked, restarted and taken down."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dev.airflow_client import AirflowClient
from dev.airflow_home import ROOT, free_port
from dev.airflow_process import wait_until
from dev.compose.docker import Docker, run

SERVICES = ("postgres", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
_BUILT = ("airflow-init", *SERVICES[1:])


class Composed:
    """One project of docker-compose.yaml. ``settings`` is what a person would write into .env."""

    def __init__(self, docker: Docker, folder: Path, settings: Mapping[str, str]) -> None:
        self.docker = docker
        self.port = free_port()
        self._env = folder / "env"
        # Only for building: no bridge here leads to a package index.
        self._override = folder / "build.yaml"
        build = {"services": {name: {"build": {"network": "host"}} for name in _BUILT}}
        self._override.write_text(json.dumps(build))
        run(["sh", "docker/make-env.sh", str(self._env)], {}, folder=ROOT)
        address = {"AIRFLOW_PORT": str(self.port), "AIRFLOW_URL": f"http://127.0.0.1:{self.port}"}
        with self._env.open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in {**address, **settings}.items())
        self.client = AirflowClient(address["AIRFLOW_URL"], "admin", self.secrets["AIRFLOW_ADMIN_PASSWORD"])

    @property
    def secrets(self) -> dict[str, str]:
        """What stands in .env."""
        return dict(line.split("=", 1) for line in self._env.read_text().splitlines())

    def __call__(self, *words: str, seconds: float = 600) -> str:
        """One command of compose."""
        files = ("--file", str(ROOT / "docker-compose.yaml"), "--file", str(self._override))
        where = ("--project-directory", str(ROOT), "--env-file", str(self._env))
        environment = {**self.docker.environment, "COMPOSE_DOCKER_CLI_BUILD": "0"}
        return run([*compose(), *files, *where, *words], environment, seconds=seconds)

    def up(self) -> None:
        """Start everything; returns when every service is healthy."""
        self("up", "--detach")
        self.wait_healthy()
        self.client.sign_in()

    def wait_healthy(self, seconds: float = 240) -> None:
        """Return when every service's own health check passes; raise with the log of those that do not."""
        if not wait_until(lambda: not self.unhealthy(), seconds, every=1):
            ill = self.unhealthy()
            logs = self("logs", "--no-color", "--tail", "30", *ill)
            raise RuntimeError(f"not healthy after {seconds:.0f} s: {', '.join(ill)}\n{logs}")

    def unhealthy(self) -> list[str]:
        """Services whose health check does not pass; all of them while Airflow's own answer is not all well."""
        ill = [name for name in SERVICES if self.state(name).get("Health", {}).get("Status") != "healthy"]
        health = self.client.health()
        well = health and all(status == "healthy" for status in health.values())
        return ill if well or ill else list(SERVICES)

    def state(self, service: str) -> dict[str, Any]:
        """What Docker says of its container's state."""
        return dict(self.inspect(service)["State"])

    def inspect(self, service: str) -> dict[str, Any]:
        """Everything that Docker knows of its container."""
        label = f"label=com.docker.compose.service={service}"  # asked from Docker: compose takes a second to start
        container = self.docker("container", "ls", "--all", "--quiet", "--filter", label).split()
        return dict(json.loads(self.docker("container", "inspect", *container))[0])


def compose() -> list[str]:
    """The compose command of this machine: Docker's plugin, or the program of old."""
    return ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
