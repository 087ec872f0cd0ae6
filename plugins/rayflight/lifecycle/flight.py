"""What every task of a run knows: whose cluster, which spec, which job, where the archive is. Data only.

Made once by ``plan`` and handed on by XCom. It names things; what exists is read from the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, Self

from rayflight.archive import Archive
from rayflight.backends.base import ClusterBackend, ClusterRef
from rayflight.labels import Owner
from rayflight.recorder import Recorder
from rayflight.snapshot.model import Snapshot
from rayflight.specs import ClusterSpec, JobSpec, TeardownPolicy


class Say(Protocol):
    """Where a recipe tells what changed: a logger's ``info``."""

    def __call__(self, message: str, /, *args: object) -> None:
        """Say it once; arguments are filled in as logging does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The run's times as every script gets them (RFC 3339, empty where the run has none)."""

    logical_date: str = ""
    start: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One flight: a cluster of one attempt with the trainings that run on it."""

    owner: Owner
    namespace: str
    spec: Mapping[str, Any]
    archive: str
    job: Mapping[str, Any] | None = None
    teardown: Mapping[str, Any] = field(default_factory=dict)
    verify: bool = True
    on_fail: str = ""  # what a failed verification leads to, where it is not what the shape says
    at_once: int | None = None
    interval: Interval = field(default_factory=Interval)

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The validated shape."""
        return ClusterSpec.model_validate(dict(self.spec))

    @property
    def when_unverified(self) -> str:
        """What a failed verification leads to: fail, warn or replace."""
        return self.on_fail or self.cluster_spec.verification.on_fail

    @property
    def job_spec(self) -> JobSpec | None:
        """The validated job, or None for a flight that trains nothing."""
        return JobSpec.model_validate(dict(self.job)) if self.job else None

    @property
    def teardown_policy(self) -> TeardownPolicy:
        """When the cluster is deleted."""
        return TeardownPolicy.model_validate(dict(self.teardown))

    @property
    def folder(self) -> str:
        """The attempt's folder inside the flight's archive."""
        return f"attempt-{self.owner.attempt}"

    def renewed(self, renewal: int) -> Flight:
        """The same flight on the cluster that replaces a lost one."""
        return replace(self, owner=replace(self.owner, renewal=renewal))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data for XCom."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Flight:
        """The inverse of ``to_dict``; unknown keys (an operator's extras) are left out."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        known["owner"] = Owner.from_dict(known["owner"])
        known["interval"] = Interval(**known.get("interval", {}))
        return cls(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a recipe works with: the backend, the flight's archive, where to say things, and the clock.

    ``fleet`` is where the history of the pool is kept, over all runs: the archive's base, or None for none.

    Enter it around a recipe: what the flight recorder has not written yet is written at the end.
    """

    backend: ClusterBackend
    archive: Archive
    say: Say
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    fleet: Archive | None = None
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "recorder", Recorder(self.archive, self.say))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.recorder.close()

    async def observe(self, ref: ClusterRef, *, ray: bool = True) -> Snapshot:
        """Everything now seen of this cluster; what changed since the last look is recorded."""
        snapshot = await self.backend.observe(ref, ray=ray)
        await self.recorder.record(recording(ref), snapshot)
        return snapshot


def recording(ref: ClusterRef) -> str:
    """The archive's folder of that cluster: where its timeline stands."""
    return f"attempt-{ref.owner.attempt if ref.owner else 0}/{ref.name}"


async def current_cluster(tools: Tools, flight: Flight) -> ClusterRef | None:
    """The newest cluster of this attempt in the world, or None. Renewals replace what was lost (decision 3)."""
    found = [
        ref
        for ref in await tools.backend.find(flight.namespace, flight.owner.flight_selector())
        if ref.owner is not None and ref.owner.attempt == flight.owner.attempt
    ]
    return max(found, key=lambda ref: ref.owner.renewal if ref.owner else 0, default=None)
