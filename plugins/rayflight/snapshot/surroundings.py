"""What stands around a cluster and may decide over it: limit ranges, queues, gangs, policies, RayJobs. Frozen facts.

Collected where somebody asked for it: a Snapshot holds None, not an empty tuple, for what nobody looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rayflight.snapshot.conditions import Condition, Strings


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """A LimitRange's entry for containers: what it fills in, and between what it holds them."""

    name: str
    defaults: Strings = field(default_factory=dict)
    minimum: Strings = field(default_factory=dict)
    maximum: Strings = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    """What must also agree after the quota is reserved: a provisioning request, another cluster, a budget."""

    name: str
    state: str = ""
    message: str = ""
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Kueue's Workload: the only object that says why a queued cluster waits. ``owner`` is the UID of what it is of."""

    name: str
    owner: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    queue: str = ""
    cluster_queue: str = ""  # whose quota is reserved for it; empty while it waits
    priority: int = 0
    active: bool = True
    created_at: str | None = None
    deleting_since: str | None = None
    finalizers: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    checks: tuple[AdmissionCheck, ...] = ()
    evictions: Mapping[str, int] = field(default_factory=dict)
    requeue_count: int = 0
    requeue_at: str | None = None

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, or None."""
        return next((item for item in self.conditions if item.type == kind), None)

    def has(self, kind: str) -> bool:
        """Whether that condition is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """One resource of one flavor of a ClusterQueue, quantities as written. A pod set takes one flavor of each group."""

    flavor: str
    resource: str
    nominal: str
    reserved: str = "0"
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """Where a Workload stands, told by Kueue's visibility API and by no object. Counted from 0."""

    workload: str
    in_cluster_queue: int
    in_local_queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A LocalQueue (with the ClusterQueue that it points to) or a ClusterQueue of Kueue."""

    kind: str
    name: str
    cluster_queue: str = ""
    stop_policy: str = ""
    pending: int = 0
    conditions: tuple[Condition, ...] = ()
    quotas: tuple[FlavorQuota, ...] = ()

    @property
    def active(self) -> Condition | None:
        """Its word on whether it admits anything."""
        return next((item for item in self.conditions if item.type == "Active"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A PodGroup of a gang scheduler (Volcano, KAI, scheduler-plugins)."""

    name: str
    phase: str = ""
    minimum: int = 0
    queue: str = ""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """Which pods it selects, and whom it lets in; ``ingress`` None where it says nothing of ingress."""

    name: str
    selector: Mapping[str, Any] = field(default_factory=dict)
    ingress: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayJob:
    """KubeRay's RayJob. ``deployment`` and ``status`` are its own words, both of which lag and lie."""

    name: str
    uid: str = ""
    cluster: str = ""
    submission: str = ""
    mode: str = ""
    deployment: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
