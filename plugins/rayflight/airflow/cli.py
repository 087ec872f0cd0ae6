"""``airflow rayflight janitor``: the janitor by hand, where Airflow's own database can be asked."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

from rayflight.airflow import access
from rayflight.airflow.sweeping import WILL_RUN, sweep_now
from rayflight.errors import RayflightError

if TYPE_CHECKING:
    from airflow.models.connection import Connection

    from rayflight.labels import Owner
    from rayflight.lifecycle.janitor import RunState

_CONNECTION = Arg(("--conn-id",), default=access.DEFAULT_CONNECTION, help="connection to the Kubernetes cluster")  # type: ignore[no-untyped-call]
_NAMESPACE = Arg(("--namespace",), nargs="+", default=[], help="where to look (default: what the connection allows)")  # type: ignore[no-untyped-call]
_RELEASE = Arg(("--release",), nargs="+", default=[], help="clusters kept after a failure that are needed no more")  # type: ignore[no-untyped-call]
_DRY_RUN = Arg(("--dry-run",), action="store_true", help="say what would be deleted, delete nothing")  # type: ignore[no-untyped-call]


def commands() -> list[GroupCommand]:
    """What Airflow's command line gets from this provider."""
    sweep = ActionCommand(
        name="janitor",
        help="Remove Ray clusters that no living run of this Airflow owns",
        func=janitor,
        args=(_CONNECTION, _NAMESPACE, _RELEASE, _DRY_RUN),
    )
    return [GroupCommand(name="rayflight", help="Ray clusters flown by this Airflow", subcommands=(sweep,))]


def janitor(args: argparse.Namespace) -> None:
    """One line per cluster; exit code 1 with one sentence when it could not be done."""
    try:
        rows = sweep_now(
            access.from_extras(args.conn_id, access.extras(args.conn_id, stored)),
            namespaces=args.namespace,
            release=args.release,
            dry_run=args.dry_run,
            ask=ask,
            say=lambda message, *values: print(message % values),
        )
    except RayflightError as error:
        sys.exit(str(error))
    print(f"{len(rows)} cluster(s) of this Airflow found")


def stored(conn_id: str) -> Connection:
    """A connection from secrets backends, the environment or the database: outside a task the SDK asks only some."""
    from airflow.models.connection import Connection

    return Connection.get_connection_from_secrets(conn_id)


async def ask(owner: Owner) -> RunState:
    """The run's state from Airflow's database."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from rayflight.lifecycle.janitor import RunState

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == owner.dag_id, DagRun.run_id == owner.run_id))
        if run is None:
            return RunState.ABSENT
        if str(run.state) in ("running", "queued"):
            return RunState.ALIVE
        states = session.scalars(
            select(TaskInstance.state).where(TaskInstance.dag_id == owner.dag_id, TaskInstance.run_id == owner.run_id)
        )
        return RunState.ALIVE if any(str(state) in WILL_RUN for state in states) else RunState.ENDED
