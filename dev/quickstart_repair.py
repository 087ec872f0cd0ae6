"""An Airflow that `make up` left and of which a part has died: only that part is started again.

What runs goes on: the flights on it are followed by the components that live. Decides by processes and by what Airflow
says of its components' heartbeats, ends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.airflow_client import AirflowClient
from dev.airflow_home import inherited
from dev.airflow_instance import COMMANDS, HEALTH
from dev.airflow_process import Component, wait_until
from dev.quickstart_processes import components, note

SETTLING = 6.0  # seconds that one which was started lives before it is believed: the heartbeat of the dead one is fresh
PATIENCE = 90.0  # seconds until a component that was started has said so; a heartbeat counts as lost after 30


def lives(home: Path) -> bool:
    """Whether any component of it runs."""
    return any(components(home).values())


def dead(home: Path) -> list[str]:
    """Components that were started and run no more."""
    return [name for name, alive in components(home).items() if not alive and name in COMMANDS]


def restart(home: Path, environment: Mapping[str, str]) -> list[str]:
    """Start what has died; the names of it."""
    gone = dead(home)
    for name in gone:
        log = home / "processes" / f"{name}.log"
        every = {**inherited(), **environment}
        note(home, Component(name, COMMANDS[name], environment=every, log=log, outlive=True))
    return gone


def silent(home: Path, client: AirflowClient, again: Sequence[str]) -> str:
    """What does not come (back) to life within the patience, in words; empty when all is well."""
    if again:
        wait_until(lambda: not all(components(home).values()), SETTLING, every=0.5)
    wait_until(lambda: not _silent(client) or not all(components(home).values()), PATIENCE, every=0.5)
    ended = [name for name, alive in components(home).items() if not alive]
    if ended:
        return f"{', '.join(ended)} ended at once again"
    return ", ".join(_silent(client))


def _silent(client: AirflowClient) -> list[str]:
    health = client.health()
    if not health:
        return ["its API server does not answer"]
    return [f"{name.replace('_', '-')} is {health.get(name)}" for name in HEALTH if health.get(name) != "healthy"]
