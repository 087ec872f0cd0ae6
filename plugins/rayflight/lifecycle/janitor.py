"""Removes what no living run owns: clusters whose Airflow run was deleted, timed out, or lost its tasks (decision 8).

Decides from labels in the world and from what Airflow answers about each run; what Airflow does not know for certain is
left alone and reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from rayflight.backends.base import ClusterBackend, ClusterRef
from rayflight.errors import RayflightError, TeardownIncomplete
from rayflight.labels import KEEP_UNTIL, Owner, airflow_selector
from rayflight.lifecycle.flight import Say

NOT_DELETED = "not deleted"
_YOUNG = timedelta(minutes=2)  # a cluster this new may belong to a run that Airflow is about to record


class RunState(StrEnum):
    """What Airflow says of the run that owns a cluster."""

    ALIVE = "alive"  # running or queued, or ended with its teardown still to come
    ENDED = "ended"  # success or failed, and no task of it will run any more
    ABSENT = "absent"  # Airflow answered that there is no such run
    UNKNOWN = "unknown"  # Airflow did not answer


AskAirflow = Callable[[Owner], Awaitable[RunState]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One cluster and what was decided. ``action`` is deleted, would delete, kept, or not deleted (it was tried)."""

    cluster: str
    uid: str
    action: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


def verdict(ref: ClusterRef, state: RunState, now: datetime, *, released: bool = False) -> tuple[bool, str]:
    """(delete?, why). Pure: the table of the janitor. ``released``: a person needs the kept cluster no more."""
    if ref.owner is None:
        return False, "its owner annotation is missing or unreadable: look at it yourself"
    run = f"run {ref.owner.run_id} of {ref.owner.dag_id}"
    until = ref.annotations.get(KEEP_UNTIL)
    if until is not None:
        if released:
            return True, "kept for a person, who released it"
        try:
            expired = now >= datetime.fromisoformat(until)
        except (ValueError, TypeError):
            return False, f"kept for a person until {until!r}, which is no time: release it by name"
        return expired, f"kept for a person until {until}" + (", which has passed" if expired else "")
    if ref.created_at and now - datetime.fromisoformat(ref.created_at) < _YOUNG:
        return False, "younger than two minutes"
    return {
        RunState.ALIVE: (False, f"{run} is alive"),
        RunState.ENDED: (True, f"{run} has ended and nothing of it will tear this down"),
        RunState.ABSENT: (True, f"Airflow has no {run} any more"),
        RunState.UNKNOWN: (False, f"Airflow did not say what became of {run}"),
    }[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to sweep: whose clusters, where, which kept ones are released, and whether only to say it."""

    airflow: str
    namespaces: tuple[str, ...]
    release: tuple[str, ...] = ()
    dry_run: bool = False


async def sweep(backend: ClusterBackend, order: Order, *, ask: AskAirflow, now: datetime, say: Say) -> list[Swept]:
    """Look at every cluster that this Airflow made in these namespaces; delete by UID what no run owns.

    Raises TeardownIncomplete when one could not be deleted, after all others were.
    """
    swept: list[Swept] = []
    for namespace in order.namespaces:
        for ref in await backend.find(namespace, airflow_selector(order.airflow)):
            state = await ask(ref.owner) if ref.owner else RunState.UNKNOWN
            delete, why = verdict(ref, state, now, released=ref.name in order.release or str(ref) in order.release)
            swept.append(await _carry_out(backend, ref, why, delete=delete, dry_run=order.dry_run))
            say("%s %s (uid %s): %s", swept[-1].action, ref, ref.uid, swept[-1].why)
    for name in order.release:
        if not any(name in (item.cluster, item.cluster.partition("/")[2]) for item in swept):
            say("nothing to release: no cluster %s of this Airflow in %s", name, ", ".join(order.namespaces))
    _raise_if_incomplete([item for item in swept if item.action == NOT_DELETED])
    return swept


async def _carry_out(backend: ClusterBackend, ref: ClusterRef, why: str, *, delete: bool, dry_run: bool) -> Swept:
    action = ("would delete" if dry_run else "deleted") if delete else "kept"
    if delete and not dry_run:
        try:
            await backend.delete(ref)
        except RayflightError as error:  # the others must go all the same
            action, why = NOT_DELETED, str(error)
    return Swept(cluster=str(ref), uid=ref.uid, action=action, why=why)


def _raise_if_incomplete(failed: list[Swept]) -> None:
    if failed:
        raise TeardownIncomplete(
            "The sweep is not complete:",
            which=", ".join(item.cluster for item in failed),
            why=failed[0].why,
            next_step="mend that; the next sweep tries again",
        )
