"""What was seen of one cluster at one moment, in both layers. Frozen facts, JSON both ways; no I/O, no judgement.

A Snapshot is the hinge of the design: collected once (a missing piece becomes a ``Gap``, never an exception), judged by
pure code, saved in the archive, replayed in tests. All times are RFC 3339 UTC strings of one form (snapshot/times.py),
so that they sort as text; ``taken_at`` is the collector's clock. Resource quantities stay Kubernetes strings;
``quantity`` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from rayflight.snapshot.conditions import Condition as Condition  # noqa: PLC0414 - part of the model
from rayflight.snapshot.conditions import Strings
from rayflight.snapshot.hang import Hang
from rayflight.snapshot.surroundings import Gang, LimitRange, NetworkPolicy, Queue, QueuePlace, RayJob, Workload
from rayflight.states import JobStatus

NOT_APPLICABLE = "not applicable"  # how the reason of a gap begins that is none on this backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that could not be observed, and why (for example a missing permission, named).

    ``source`` is the name of the Snapshot's field that is empty for that reason: ``nodes``, ``foreign_pods``,
    ``events``, ``quotas``, ``claims``, ``services``, ``ray``, or a part of the Ray side: ``ray.nodes``, ``ray.jobs``,
    ``ray.placement_groups``, ``ray.demands``. A rule whose deciding field has a gap stays silent.
    """

    source: str
    why: str

    @property
    def applies(self) -> bool:
        """False for what has no meaning on this backend: nothing is missing then."""
        return not self.why.startswith(NOT_APPLICABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """How a container ended."""

    reason: str
    exit_code: int
    message: str = ""
    finished_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod. ``state`` is waiting, running, terminated or unknown."""

    name: str
    image: str
    image_id: str = ""
    init: bool = False
    sidecar: bool = False
    state: str = "unknown"
    reason: str = ""
    message: str = ""
    ready: bool = False
    restarts: int = 0
    started_at: str | None = None
    terminated: Termination | None = None
    last: Termination | None = None
    requests: Strings = field(default_factory=dict)
    limits: Strings = field(default_factory=dict)
    unhealthy_devices: tuple[str, ...] = ()
    healthy_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A pod's toleration; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of the cluster. ``role`` is head or worker (empty for a foreign pod), ``group`` the worker group."""

    name: str
    uid: str
    namespace: str
    role: str = ""
    group: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    node: str = ""
    ip: str = ""
    created_at: str | None = None
    started_at: str | None = None
    deleting_since: str | None = None
    conditions: tuple[Condition, ...] = ()
    containers: tuple[Container, ...] = ()
    node_selector: Strings = field(default_factory=dict)
    affinity: Mapping[str, Any] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[str, ...] = ()
    scheduling_gates: tuple[str, ...] = ()
    scheduler: str = "default-scheduler"
    priority: int = 0
    labels: Strings = field(default_factory=dict)
    owner_uid: str = ""
    restart_policy: str = "Always"
    spread: tuple[Mapping[str, Any], ...] = ()
    annotations: Strings = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, or None."""
        return next((item for item in self.conditions if item.type == kind), None)

    @property
    def ready(self) -> bool:
        """Ready, and not on its way out."""
        found = self.condition("Ready")
        return found is not None and found.status == "True" and self.deleting_since is None

    def limit(self, resource: str) -> float:
        """Sum of that resource's limits over the pod's main containers, in base units."""
        return sum(quantity(item.limits.get(resource, "0")) for item in self.containers if not item.init)

    def request(self, resource: str) -> float:
        """Sum of that resource's requests over the pod's main containers, in base units."""
        return sum(
            quantity(item.requests.get(resource, item.limits.get(resource, "0")))
            for item in self.containers
            if not item.init
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes event of either event API, with the times and counts joined."""

    kind: str
    name: str
    uid: str = ""
    reason: str
    message: str
    type: str = "Normal"
    count: int = 1
    first_at: str | None = None
    last_at: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """One Kubernetes node."""

    name: str
    labels: Strings = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: Strings = field(default_factory=dict)
    allocatable: Strings = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    unschedulable: bool = False

    @property
    def ready(self) -> bool:
        """The node's Ready condition is True."""
        return any(item.type == "Ready" and item.status == "True" for item in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A ResourceQuota of the namespace."""

    name: str
    hard: Strings = field(default_factory=dict)
    used: Strings = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim of the namespace. ``volume`` is empty until it is bound."""

    name: str
    phase: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    volume: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service of the cluster with its named ports."""

    name: str
    ports: Mapping[str, int] = field(default_factory=dict)
    kind: str = ""
    has_address: bool = False
    created_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A worker group as asked for in the stored RayCluster; ``desired`` is in pods (replicas x hosts, clamped)."""

    name: str
    desired: int
    minimum: int = 0
    maximum: int = 2147483647
    limits: Strings = field(default_factory=dict)
    requests: Strings = field(default_factory=dict)
    selector: Strings = field(default_factory=dict)
    start_params: Strings = field(default_factory=dict)
    replicas: int = 0
    hosts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The stored RayCluster. ``state`` is KubeRay's own word and is never trusted (it is sticky).

    ``status_desired`` is the operator's own count of desired worker pods. ``dropped`` are fields that were asked for
    and are not in the object as it was first stored.
    """

    name: str
    uid: str
    namespace: str
    created_at: str | None = None
    deleting_since: str | None = None
    generation: int = 0
    observed_generation: int = 0
    suspended: bool = False
    state: str = ""
    has_status: bool = False
    autoscaling: bool = False
    ray_version: str = ""
    head_service: str = ""
    conditions: tuple[Condition, ...] = ()
    groups: tuple[Group, ...] = ()
    finalizers: tuple[str, ...] = ()
    head_limits: Strings = field(default_factory=dict)
    head_requests: Strings = field(default_factory=dict)
    head_start_params: Strings = field(default_factory=dict)
    auth_mode: str = ""
    labels: Strings = field(default_factory=dict)
    annotations: Strings = field(default_factory=dict)
    status_reason: str = ""
    status_desired: int | None = None
    fault_tolerant: bool = False
    dropped: tuple[str, ...] = ()

    @property
    def desired_pods(self) -> int:
        """Head and workers."""
        return 1 + sum(group.desired for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """One Ray node. ``pod`` is the name that KubeRay gives it (RAY_CLOUD_INSTANCE_ID); empty where there is none.

    ``gpu_use`` are the percents of its GPUs at that moment, empty where nobody measures them.
    """

    id: str
    ip: str
    state: str
    is_head: bool = False
    pod: str = ""
    group: str = ""
    why: str = ""
    resources: Mapping[str, float] = field(default_factory=dict)
    started_at: str | None = None
    ended_at: str | None = None
    gpu_use: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One submission of the Ray Jobs API. ``ray_job`` is Ray's own id, empty until the driver calls ``ray.init``."""

    id: str
    ray_job: str = ""
    status: JobStatus
    message: str = ""
    error_type: str = ""
    entrypoint: str = ""
    metadata: Strings = field(default_factory=dict)
    started_at: str | None = None
    ended_at: str | None = None
    driver_node_id: str = ""
    driver_exit_code: int | None = None
    runtime_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementGroup:
    """A Ray placement group: its state and what each bundle asks for. ``ray_job`` is the Ray job that made it."""

    id: str
    state: str
    ray_job: str = ""
    since: str | None = None
    strategy: str = ""
    bundles: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """The Ray side. Absent from a Snapshot (None) when the dashboard did not answer; the gap says why.

    What of it could not be read is empty here and named in ``gaps``. ``without_token`` is the HTTP status that a
    request for the jobs got without a token; None where nobody asked that.
    """

    session: str
    version: str = ""
    gcs_healthy: bool | None = None
    nodes: tuple[RayNode, ...] = ()
    jobs: tuple[Job, ...] = ()
    placement_groups: tuple[PlacementGroup, ...] = ()
    pending_demands: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    usage: tuple[str, ...] = ()
    without_token: int | None = None

    def alive(self) -> tuple[RayNode, ...]:
        """Nodes that Ray calls ALIVE."""
        return tuple(node for node in self.nodes if node.state == "ALIVE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything seen of one cluster at ``taken_at``. ``cluster`` None means: looked, and it is not there.

    A kind that could not be read is empty and named in ``gaps``. ``foreign_pods`` are all other pods on
    ``nodes``: who holds what ours wait for. ``logs`` are the last lines of logs, by ``POD/CONTAINER``,
    ``POD/CONTAINER/previous`` or ``driver/SUBMISSION``. ``backend`` says where it runs: what has no meaning there is
    "not applicable" to a verification. What stands around the cluster is None where nobody looked at it. ``relists``
    counts by kind how often the collector's watch expired: what came and went unseen then is not known. ``hang`` is a
    silence of the running job that was looked into, None where nothing was silent.
    """

    namespace: str
    name: str
    taken_at: str
    cluster: Cluster | None = None
    pods: tuple[Pod, ...] = ()
    foreign_pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    nodes: tuple[KubeNode, ...] = ()
    quotas: tuple[Quota, ...] = ()
    claims: tuple[Claim, ...] = ()
    services: tuple[Service, ...] = ()
    ray: Ray | None = None
    logs: Strings = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    backend: str = "kubernetes"
    limit_ranges: tuple[LimitRange, ...] | None = None
    workloads: tuple[Workload, ...] | None = None
    queues: tuple[Queue, ...] | None = None
    queue_places: tuple[QueuePlace, ...] | None = None
    gangs: tuple[Gang, ...] | None = None
    network_policies: tuple[NetworkPolicy, ...] | None = None
    rayjobs: tuple[RayJob, ...] | None = None
    relists: Mapping[str, int] = field(default_factory=dict)
    hang: Hang | None = None

    @property
    def head(self) -> Pod | None:
        """The head pod that is not on its way out, or None."""
        return next((pod for pod in self.pods if pod.role == "head" and pod.deleting_since is None), None)

    def workers(self, group: str | None = None) -> tuple[Pod, ...]:
        """Worker pods that are not on their way out."""
        return tuple(
            pod
            for pod in self.pods
            if pod.role == "worker" and pod.deleting_since is None and group in (None, pod.group)
        )

    def group(self, name: str) -> Group | None:
        """The worker group of that name in the stored RayCluster, or None."""
        groups = self.cluster.groups if self.cluster else ()
        return next((item for item in groups if item.name == name), None)

    def gap(self, source: str) -> Gap | None:
        """The gap of that source, or None when it was read."""
        return next((item for item in self.gaps if item.source == source), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        data: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Snapshot:
        """The inverse of ``to_dict``. Raises pydantic.ValidationError on foreign data."""
        return _adapter().validate_python(data)


@cache
def _adapter() -> TypeAdapter[Snapshot]:
    return TypeAdapter(Snapshot)


_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(text: str | int | float) -> float:
    """A Kubernetes quantity in base units: cores, bytes, devices. Raises ValueError on anything else.

    >>> quantity("200m"), quantity("2Gi"), quantity("4")
    (0.2, 2147483648.0, 4.0)
    """
    text = str(text)
    for length in (2, 1):
        if len(text) > length and text[-length:] in _SUFFIXES:
            return float(text[:-length]) * _SUFFIXES[text[-length:]]
    return float(text)
