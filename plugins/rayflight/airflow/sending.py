"""Sends one alert through all channels at once. A channel that does not take it is logged and counted; none raises."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from asgiref.sync import sync_to_async

from rayflight.airflow import metrics
from rayflight.airflow.channels import Channel, notifier

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.alerts import Alert

SECONDS = 20.0  # for all channels together: a callback must not hold a worker slot, nor the DAG processor
_log = logging.getLogger(__name__)


def send(channels: Sequence[Channel], alert: Alert, context: Context, *, seconds: float = SECONDS) -> int:
    """How many took it. Each in a daemon thread of its own: one that hangs keeps neither the others nor the process."""
    outcomes: dict[Channel, BaseException | None] = {}

    def one(channel: Channel) -> None:
        try:
            notifier(channel, BaseHook.get_connection(channel.conn_id), alert).notify(context)
            outcomes[channel] = None
        except Exception as error:  # noqa: BLE001 - every provider has exceptions of its own; none may fail a run
            outcomes[channel] = error

    threads = {channel: threading.Thread(target=one, args=(channel,), daemon=True) for channel in channels}
    for thread in threads.values():
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    late = TimeoutError(f"it did not take the message within {seconds:g} s")
    return sum(_counted(channel, outcomes.get(channel, late)) for channel in channels)


async def asend(channels: Sequence[Channel], alert: Alert, context: Context, *, seconds: float = SECONDS) -> int:
    """The same on the triggerer's loop."""

    async def one(channel: Channel) -> None:
        made = notifier(channel, await BaseHook.aget_connection(channel.conn_id), alert)
        try:
            await made.async_notify(context)
        except NotImplementedError:  # Opsgenie's has no asynchronous way
            await sync_to_async(made.notify, thread_sensitive=False)(context)

    tasks = [asyncio.wait_for(one(channel), seconds) for channel in channels]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    return sum(_counted(channel, outcome) for channel, outcome in zip(channels, outcomes, strict=True))


def _counted(channel: Channel, outcome: BaseException | None) -> bool:
    metrics.count(metrics.ALERTS, channel=channel.conn_id, result="broken" if outcome else "sent")
    if outcome is None:
        _log.info("Alert sent through %s", channel.conn_id)
        return True
    _log.warning("No alert went out through %s: %s", channel.conn_id, str(outcome) or type(outcome).__name__)
    return False
