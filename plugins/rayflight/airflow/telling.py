"""Alerts while a task still waits: whoever is told of its failure is told at once of what ``watch`` sees.

Channels travel as plain data with the step's arguments; the message is deduplicated like every other one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from rayflight.findings import Check


def listeners(operator: BaseOperator, context: Context) -> dict[str, Any]:
    """What ``told`` needs later: the notifiers of ``on_failure_callback``, and who speaks. Plain data."""
    from rayflight.airflow import run_facts
    from rayflight.airflow.notifier import RayflightNotifier

    every = operator.on_failure_callback or ()
    notifiers = [item.to_dict() for item in every if isinstance(item, RayflightNotifier)]
    return {"tell": notifiers, "speaker": asdict(run_facts.run_of(context, whole=False))} if notifiers else {}


def told(arguments: Mapping[str, Any]) -> Callable[[Sequence[Check]], Awaitable[None]] | None:
    """A function that tells rows to everybody of ``listeners``; None where nobody listens."""
    if not arguments.get("tell"):
        return None

    async def tell(rows: Sequence[Check]) -> None:
        from rayflight.airflow.notifier import RayflightNotifier
        from rayflight.alerts import Run, problem
        from rayflight.verification import diagnosis_from_checks

        alert = problem(
            None,
            run=Run(**arguments["speaker"]),
            at=datetime.now(UTC),
            diagnosis=diagnosis_from_checks(rows),
            checks=rows,
            cluster=str(arguments["cluster"]["name"]),
        )
        for given in arguments["tell"]:
            await RayflightNotifier(**given).tell(alert)

    return tell
