"""``RayflightNotifier``: one message for one fault, through the channels that Airflow connections name.

For task and DAG callbacks (failure, success, retry) and for deadlines. Never fails a run: a channel that does not take
the message is logged and counted, and whatever else goes wrong in here is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from rayflight.airflow import access, metrics, settings
from rayflight.airflow.channels import Channel

if TYPE_CHECKING:
    from airflow.sdk import Context

    from rayflight.alerts import Alert, Store, Success

FOLDER = "alerts"  # below the archive's base: who was told of what


@dataclass(frozen=True, slots=True)
class _News:
    """What a callback has to tell: a problem, or a success that may heal earlier ones."""

    problem: Alert | None = None
    success: Success | None = None


class RayflightNotifier(BaseNotifier):
    """Says what failed, where, since when and what to do next; once per fault and hour; and when it is good again.

    :param channels: Airflow connections (Slack webhook, SMTP, HTTP, PagerDuty events, Opsgenie, Apprise), each by
        its id or as a mapping with ``conn_id`` and more fields of ``rayflight.airflow.channels.Channel``
    :param window_minutes: how long the same fault is counted instead of said again
    """

    def __init__(
        self, channels: Sequence[str | Mapping[str, Any] | Channel] | str, *, window_minutes: float = 60, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.channels = [Channel.of(item) for item in ([channels] if isinstance(channels, str) else channels)]
        self.window = timedelta(minutes=window_minutes)

    def notify(self, context: Context) -> None:
        """Callbacks of tasks and DAGs."""
        from rayflight.airflow.sending import send

        try:
            for alert in asyncio.run(self._due(context)):
                if not send(self._meant(alert), alert, context):
                    asyncio.run(_untell(alert))
        except Exception:  # an alert must never fail a run, whatever is wrong with it
            self.log.exception("No alert could be made")

    async def async_notify(self, context: Context) -> None:
        """Deadlines, on the triggerer."""
        from rayflight.airflow.sending import asend

        try:
            for alert in await self._due(context):
                if not await asend(self._meant(alert), alert, context):
                    await _untell(alert)
        except Exception:  # as above
            self.log.exception("No alert could be made")

    async def tell(self, alert: Alert) -> None:
        """While a task still waits, on the triggerer: a device that fell ill under a training is told at once."""
        from rayflight.airflow.sending import asend

        try:
            for due in await self._claimed(alert, datetime.now(UTC)):
                if not await asend(self._meant(due), due, {}):
                    await _untell(due)
        except Exception:  # as above
            self.log.exception("No alert could be made")

    def to_dict(self) -> dict[str, Any]:
        """Its own arguments as plain data."""
        minutes = self.window.total_seconds() / 60
        return {"channels": [asdict(channel) for channel in self.channels], "window_minutes": minutes}

    async def _due(self, context: Context) -> list[Alert]:
        """What is to be said now."""
        from rayflight.alerts import recover

        now = datetime.now(UTC)
        news = await _news(context, now)
        if news.problem is not None:
            return await self._claimed(news.problem, now)
        try:
            return list(await recover(_store(), news.success, now=now)) if news.success else []
        except Exception as error:  # noqa: BLE001 - every store's library has exceptions of its own
            self.log.warning("Nothing is called good again: %s cannot be used (%s)", settings.archive_base(), error)
            return []

    async def _claimed(self, problem: Alert, now: datetime) -> list[Alert]:
        """The problem, unless it was said. Where the store cannot be used it is said: twice is better than never."""
        from rayflight.alerts import claim

        try:
            due = await claim(_store(), problem, now=now, window=self.window)
        except Exception as error:  # noqa: BLE001 - every store's library has exceptions of its own
            self.log.warning("Alerts are not deduplicated: %s cannot be used (%s)", settings.archive_base(), error)
            return [problem]
        if due is None:
            self.log.info("Said already within %s: %s", self.window, problem.title)
            metrics.count(metrics.ALERTS, channel="all", result="repeated")
        return [due] if due else []

    def _meant(self, alert: Alert) -> list[Channel]:
        from rayflight.alerts import Kind

        return [channel for channel in self.channels if channel.recovery or alert.kind is Kind.PROBLEM]


async def _untell(alert: Alert) -> None:
    """Nobody could be told: the next occurrence is said."""
    from rayflight.alerts import Kind, unsaid

    if alert.kind is Kind.PROBLEM:
        await unsaid(_store(), alert.fingerprint)


def _store() -> Store:
    from rayflight.archive import Ledger

    return Ledger(access.archive(settings.archive_base()), FOLDER)


async def _news(context: Context, now: datetime) -> _News:
    """Airflow does not say which callback it is: a task's process leaves ``exception``, a DAG's callback ``reason``."""
    if "deadline" in context:
        return _News(problem=_late(context, now))
    if "exception" in context:
        error = context["exception"]
        if error is None:
            return _succeeded(context, now)
        return _News(problem=await _failed(context, error, now, whole=False))
    if context.get("reason") == "success":
        return _News(success=_healthy(context, whole=True))
    # A DAG's callback, or a task whose process died: what the run left in the archive speaks.
    return _News(problem=await _failed(context, None, now, whole="reason" in context))


async def _failed(context: Context, error: BaseException | str | None, now: datetime, *, whole: bool) -> Alert:
    from rayflight.airflow import run_facts
    from rayflight.alerts import problem
    from rayflight.errors import Diagnosed

    run = run_facts.run_of(context, whole=whole)
    kept = run_facts.Kept() if isinstance(error, Diagnosed) else await run_facts.kept_by(run.dag_id, run.run_id)
    use = error is None  # an error of its own says more than what an earlier task left
    said = error if isinstance(error, BaseException) else error or str(context.get("reason") or "").replace("_", " ")
    return problem(
        said,
        run=run,
        at=now,
        diagnosis=kept.diagnosis if use else None,
        checks=kept.checks if use else (),
        links=run_facts.links_of(context, run, error=error, at=now, kept=kept),
        cluster=run_facts.cluster_of(context, error, kept),
    )


def _succeeded(context: Context, now: datetime) -> _News:
    """A task that succeeded may still have something to tell: rows that failed and were to be warned about only."""
    from rayflight.airflow import run_facts
    from rayflight.alerts import problem
    from rayflight.verification import diagnosis_from_checks

    rows = run_facts.troubled(context)
    if not rows:
        return _News(success=_healthy(context))
    run, kept = run_facts.run_of(context, whole=False), run_facts.Kept()
    return _News(
        problem=problem(
            None,
            run=run,
            at=now,
            diagnosis=diagnosis_from_checks(rows),
            checks=rows,
            links=run_facts.links_of(context, run, error=None, at=now, kept=kept),
            cluster=run_facts.cluster_of(context, None, kept),
        )
    )


def _healthy(context: Context, *, whole: bool = False) -> Success:
    """What this success shows: of a verification, which checks passed on which nodes."""
    from rayflight.airflow import run_facts
    from rayflight.alerts import Success

    rows = () if whole else run_facts.matrix_of(context)
    return Success(run=run_facts.run_of(context, whole=whole), passed=run_facts.passed_on(rows))


def _late(context: Context, now: datetime) -> Alert:
    from rayflight.airflow import run_facts
    from rayflight.alerts import Link, Run, deadline_missed

    given: Mapping[str, Any] = context  # a deadline's context has plain dicts in it
    run, deadline = given.get("dag_run") or {}, given.get("deadline") or {}
    dag_id, run_id = str(run.get("dag_id", "")), str(run.get("dag_run_id", ""))
    return deadline_missed(
        Run(dag_id=dag_id, run_id=run_id, url=run_facts.run_url(dag_id, run_id)),
        at=now,
        late=f"it was due at {deadline['deadline_time']}" if deadline.get("deadline_time") else "",
        links=[Link(name="Archive", url=access.run_archive_url(settings.archive_base(), dag_id, run_id))],
    )
