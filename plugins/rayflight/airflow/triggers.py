"""The one trigger of Rayflight: runs a step on the triggerer's loop and carries its outcome back.

Holds no state that a restart loses: a step reads the world and the archive and goes on. ``cleanup`` closes nothing but
connections (the backend's own exit does it), and ``on_kill`` acts only on a person's will (decision 5).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from rayflight.airflow import access, outcomes
from rayflight.airflow.intent import ended_by_a_person, stop
from rayflight.errors import RayflightError

DECIDED = "Decided: "  # begins the line that says at once why the task will fail
SETTLE_SECONDS = 5.0  # docs/decisions/0025-a-trigger-fires-no-sooner.md


class StepTrigger(BaseTrigger):
    """Runs ``step`` of ``airflow.steps`` for one flight. With ``stop_on_kill`` a person's kill stops the submission."""

    def __init__(
        self, *, step: str, flight: dict[str, Any], conn_id: str, arguments: dict[str, Any], stop_on_kill: bool = False
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.step, self.flight, self.conn_id = step, flight, conn_id
        self.arguments, self.stop_on_kill = arguments, stop_on_kill

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments; secrets are not among them (the connection is resolved where the trigger runs)."""
        return (
            "rayflight.airflow.triggers.StepTrigger",
            {
                "step": self.step,
                "flight": self.flight,
                "conn_id": self.conn_id,
                "arguments": self.arguments,
                "stop_on_kill": self.stop_on_kill,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: {"result": …} or {"error": …}. CancelledError passes through."""
        from rayflight.airflow.steps import STEPS
        from rayflight.lifecycle.flight import Flight, Tools

        flight = Flight.from_dict(self.flight)
        began = time.monotonic()
        try:
            async with access.backend(await access.aaccess(self.conn_id)) as backend:
                archive = access.archive(flight.archive)
                await archive.check()
                fleet = access.fleet(flight)
                async with Tools(backend=backend, archive=archive, say=self.log.info, fleet=fleet) as tools:
                    result = await STEPS[self.step](tools, flight, self.arguments)
        except RayflightError as error:
            self.log.info("%s%s", DECIDED, error)
            event = outcomes.failure(error)
        else:
            event = {"result": result}
        await asyncio.sleep(max(0.0, SETTLE_SECONDS - (time.monotonic() - began)))
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Stop the submission if a person ended or cleared this task; do nothing when the triggerer merely lost it."""
        if not self.stop_on_kill or self.task_instance is None:
            return
        from asgiref.sync import sync_to_async

        if not await sync_to_async(ended_by_a_person)(self.task_instance, at_work="deferred", say=self.log.info):
            return
        kube = await access.aaccess(self.conn_id)
        await stop(kube, self.arguments["cluster"], self.arguments["submission_id"], self.log.info)
