"""A real Airflow as a context manager: scheduler, dag-processor, triggerer and API server, each a process of its own.

    with Airflow(settings) as airflow:
        run = airflow.client.trigger("train_ddp", {"shape": "testbed-2x1"})
        airflow.client.wait_for_run(run, seconds=240)

Nothing of it outlives the ``with`` block, also when the body fails or this process is killed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from dev.airflow_client import AirflowClient
from dev.airflow_home import AirflowHome, Settings
from dev.airflow_process import Component, end_all

# Their log servers would listen on all interfaces, on ports that two Airflows share; the logs lie in one directory.
COMMANDS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
HEALTH = ("metadatabase", "scheduler", "triggerer", "dag_processor")


class Airflow:
    """One Airflow. ``directory`` None: a temporary one, removed afterwards unless ``keep`` is set."""

    def __init__(self, settings: Settings | None = None, *, directory: Path | None = None, keep: bool = False) -> None:
        self._temporary = directory is None
        self._keep = keep
        self.home = AirflowHome(
            directory or Path(tempfile.mkdtemp(prefix="rayflight-airflow-")), settings or Settings()
        )
        self.client = AirflowClient(self.home.url, "admin", self.home.passwords["admin"])
        self.components: dict[str, Component] = {}
        self.seconds_to_start = 0.0

    def __enter__(self) -> Self:
        begin = time.monotonic()
        try:
            self.home.prepare()
            for name in COMMANDS:
                self._start(name)
            self.wait_healthy()
            self.client.sign_in()
        except BaseException:
            self.close()
            raise
        self.seconds_to_start = time.monotonic() - begin
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._keep and error is None:
            self.client.close()
        else:
            self.close()

    def close(self) -> None:
        """End every process and remove a temporary directory."""
        self.client.close()
        end_all(self.components.values())
        if self._temporary and not self._keep:
            shutil.rmtree(self.home.directory, ignore_errors=True)

    def wait_healthy(self, seconds: float = 120) -> None:
        """Return when every component reports a heartbeat; raise with the log of one that ended."""
        deadline = time.monotonic() + seconds
        while True:
            health = self.client.health()
            if all(health.get(name) == "healthy" for name in HEALTH):
                return
            for component in self.components.values():
                if not component.alive:
                    raise RuntimeError(f"{component.name} ended while starting:\n{component.log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Airflow is not healthy after {seconds:.0f} s: {health or 'no answer'}")
            time.sleep(0.25)

    def start_triggerer(self) -> Component:
        """One more triggerer; returns when it takes triggers."""
        number = sum(1 for name in self.components if name.startswith("triggerer")) + 1
        component = self._start("triggerer", f"triggerer-{number}")
        deadline = time.monotonic() + 60
        while self.client.living_triggerers() < number:
            if not component.alive or time.monotonic() > deadline:
                raise RuntimeError(f"{component.name} does not come up:\n{component.log_tail()}")
            time.sleep(0.25)
        return component

    def restart(self, name: str, *, kill: bool = False) -> Component:
        """Stop one component, politely or not, and start it again in the same home."""
        component = self.components[name]
        if kill:
            component.kill()
        else:
            end_all([component])
        fresh = self._start(name.rstrip("-0123456789"), name)
        self.wait_healthy()
        return fresh

    def drop(self, component: Component) -> None:
        """End one component for good (a second triggerer after its test)."""
        end_all([component])
        del self.components[component.name]

    def _start(self, kind: str, name: str | None = None) -> Component:
        name = name or kind
        component = Component(
            name,
            COMMANDS[kind],
            environment=self.home.environment,
            log=self.home.processes / f"{name}.log",
            outlive=self._keep,
        )
        self.components[name] = component
        return component
