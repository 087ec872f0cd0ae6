"""One sweep of the janitor, for the task and for the command. Who owns a cluster is asked by the caller's own means."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rayflight.airflow import access, settings
from rayflight.errors import InvalidSpec

if TYPE_CHECKING:
    from rayflight.airflow.access import Access
    from rayflight.lifecycle.flight import Say
    from rayflight.lifecycle.janitor import AskAirflow, Swept

# States of tasks that Airflow will still run, so that their run can still tear down by itself.
WILL_RUN = ("running", "queued", "scheduled", "deferred", "up_for_retry", "up_for_reschedule", "restarting", "None")


def sweep_now(
    place: Access, *, namespaces: Sequence[str], release: Sequence[str], dry_run: bool, ask: AskAirflow, say: Say
) -> list[Swept]:
    """Raises InvalidSpec, ApiUnreachable, PermissionMissing."""
    from rayflight.lifecycle.janitor import Order, sweep

    where = [place.allowed(name) for name in namespaces] or list(place.allowed_namespaces) or [place.namespace]
    order = Order(airflow=required_instance(), namespaces=tuple(where), release=tuple(release), dry_run=dry_run)

    async def run() -> list[Swept]:
        async with access.backend(place) as backend:
            return await sweep(backend, order, ask=ask, now=datetime.now(UTC), say=say)

    return asyncio.run(run())


def required_instance() -> str:
    """This installation's name: without one, two Airflows would take each other's clusters for orphans."""
    name = settings.instance()
    if name is None:
        raise InvalidSpec(
            "The janitor needs a name for this Airflow:",
            which="[rayflight] instance",
            why="it is not set, so clusters of another Airflow could not be told from ours",
            next_step="set AIRFLOW__RAYFLIGHT__INSTANCE to a name that no other Airflow on these clusters has",
        )
    return name
