"""Whether a fault was said already. Pure but for the store that it is given: one value per fault, compare-and-set.

A fault is firing from its first alert until a success shows it good. While it fires, it is said once per window, then
with its count. Two processes that see the same fault at once race for the store: one of them wins and speaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from rayflight.alerts.compose import healed
from rayflight.alerts.message import Alert, Link, Run

WINDOW = timedelta(hours=1)
FORGET = timedelta(days=1)  # how long a healed fault's value is kept
_TURNS = 20  # lost races in a row before the alert is sent unclaimed: twice is better than never
_PREFIX = "verification-"


class Store(Protocol):
    """The one named store: a value per key with a version that grows by one."""

    async def keys(self) -> Sequence[str]:
        """Every fault that is remembered."""
        ...

    async def read(self, key: str) -> tuple[int, Mapping[str, Any] | None]:
        """Version and value; version 0 and None where there is none."""
        ...

    async def compare_and_set(self, key: str, version: int, data: Mapping[str, Any]) -> bool:
        """Set the value if the version is still this one. False when somebody else was first."""
        ...

    async def forget(self, key: str) -> None:
        """Remove the fault."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known of one fault. ``told_at`` None: nobody could be told yet; ``count`` since it began to fire."""

    firing: bool
    alert: Alert
    since: str
    told_at: str | None
    count: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "firing": self.firing,
            "alert": self.alert.to_dict(),
            "since": self.since,
            "told_at": self.told_at,
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> State:
        """The inverse of ``to_dict``."""
        return cls(**{**data, "alert": Alert.from_dict(data["alert"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """What a success showed: the task (empty for a whole DAG run), and which checks passed on which nodes."""

    run: Run
    passed: frozenset[tuple[str, str]] = frozenset()

    def heals(self, state: State) -> bool:
        """A node's fault is healed by the same check passing there; any other by its own task passing."""
        alert = state.alert
        if alert.where.node:
            check = alert.cause.removeprefix(_PREFIX) if alert.cause.startswith(_PREFIX) else None
            nodes = {node for name, node in self.passed if check in (None, name)}
            return alert.where.node in nodes
        return alert.run.dag_id == self.run.dag_id and self.run.task_id in ("", alert.run.task_id)


def seen(state: State | None, alert: Alert, *, now: datetime, window: timedelta = WINDOW) -> tuple[State, bool]:
    """The fault's next state, and whether it is to be said now."""
    stamp = now.isoformat()
    if state is None or not state.firing:
        return State(firing=True, alert=alert, since=alert.since or stamp, told_at=stamp, count=1), True
    told = datetime.fromisoformat(state.told_at) if state.told_at else None
    due = told is None or now - told >= window
    kept = replace(alert, since=state.since)
    return (
        replace(state, alert=kept, told_at=stamp if due else state.told_at, count=state.count + 1),
        due,
    )


async def claim(store: Store, alert: Alert, *, now: datetime, window: timedelta = WINDOW) -> Alert | None:
    """The alert to send, with its count, or None when it was said already."""
    for _ in range(_TURNS):
        version, data = await store.read(alert.fingerprint)
        state, tell = seen(State.from_dict(data) if data else None, alert, now=now, window=window)
        if await store.compare_and_set(alert.fingerprint, version, state.to_dict()):
            return replace(state.alert, count=state.count) if tell else None
    return alert


async def unsaid(store: Store, key: str) -> None:
    """No channel took the message: the next occurrence is said, whatever the window."""
    version, data = await store.read(key)
    if data:
        await store.compare_and_set(key, version, replace(State.from_dict(data), told_at=None).to_dict())


async def recover(store: Store, success: Success, *, now: datetime, links: Sequence[Link] = ()) -> tuple[Alert, ...]:
    """Messages about faults that this success shows healed. A fault that nobody was told of heals in silence."""
    over = []
    for key in await store.keys():
        version, data = await store.read(key)
        state = State.from_dict(data) if data else None
        if state is None:
            continue
        if not state.firing:
            if now - datetime.fromisoformat(state.told_at or state.alert.at) > FORGET:
                await store.forget(key)
        elif success.heals(state):
            good = replace(state, firing=False, told_at=now.isoformat())
            if await store.compare_and_set(key, version, good.to_dict()) and state.told_at:
                over.append(healed(state.alert, run=success.run, at=now, count=state.count, links=links))
    return tuple(over)
