"""The recipes that a trigger can run, by name: (tools, flight, arguments) -> plain dict. No step decides anything.

One table serves both ways of waiting: a trigger awaits a step on the triggerer's loop, an operator with
``deferrable=False`` runs the very same step with ``asyncio.run``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rayflight.states import Stage

if TYPE_CHECKING:
    from rayflight.lifecycle.flight import Flight, Tools

Arguments = Mapping[str, Any]
Step = Callable[["Tools", "Flight", Arguments], Awaitable[dict[str, Any]]]


async def ensure(tools: Tools, flight: Flight, arguments: Arguments) -> dict[str, Any]:
    """Arguments: stage, try_number, last_try, deadline. Returns cluster, checks, dashboard, times."""
    from rayflight.lifecycle.ensure import ensure as recipe

    ensured = await recipe(
        tools,
        flight,
        Stage(arguments["stage"]),
        try_number=arguments["try_number"],
        last_try=arguments["last_try"],
        deadline=datetime.fromisoformat(arguments["deadline"]),
    )
    return {
        "cluster": ensured.ref.to_dict(),
        "checks": [asdict(check) for check in ensured.checks],
        "dashboard": tools.backend.dashboard_url(ensured.ref),
        "times": dict(ensured.times),
    }


async def follow(tools: Tools, flight: Flight, arguments: Arguments) -> dict[str, Any]:
    """Arguments: cluster, submission_id, session, deadline (or None), on_hang, hang_after (seconds, or None)."""
    from rayflight.airflow.telling import told
    from rayflight.backends.base import ClusterRef
    from rayflight.lifecycle.following import Follower
    from rayflight.specs import OnHang

    deadline, silence = arguments.get("deadline"), arguments.get("hang_after")
    follower = Follower(
        tools=tools,
        flight=flight,
        ref=ClusterRef.from_dict(arguments["cluster"]),
        submission_id=arguments["submission_id"],
        session=arguments["session"],
        deadline=datetime.fromisoformat(deadline) if deadline else None,
        on_hang=OnHang(arguments.get("on_hang") or OnHang.REPORT),
        hang_after=timedelta(seconds=silence) if silence else None,
        tell=told(arguments),
    )
    return (await follower.follow()).to_dict()


async def tear_down(tools: Tools, flight: Flight, arguments: Arguments) -> dict[str, Any]:
    """Arguments: failed, deadline."""
    from rayflight.lifecycle.teardown import tear_down as recipe

    landing = await recipe(
        tools, flight, failed=arguments["failed"], deadline=datetime.fromisoformat(arguments["deadline"])
    )
    return landing.to_dict()


async def gone(tools: Tools, flight: Flight, arguments: Arguments) -> dict[str, Any]:
    """Arguments: deadline."""
    from rayflight.lifecycle.teardown import gone as recipe

    return (await recipe(tools, flight, deadline=datetime.fromisoformat(arguments["deadline"]))).to_dict()


STEPS: Mapping[str, Step] = {"ensure": ensure, "follow": follow, "tear_down": tear_down, "gone": gone}
