"""The contract between the lifecycle and the places where clusters run. Types only: no I/O.

One implementation per place: ``kubernetes`` (KubeRay) and ``local`` (Ray processes on this machine). Everything is
async; a backend is entered with ``async with`` and closes only connections on exit, never clusters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from rayflight.labels import Owner
from rayflight.snapshot.hang import Sample, TrainingProcess
from rayflight.snapshot.model import Job, Ray, Snapshot
from rayflight.specs import ClusterSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRef:
    """One cluster, named beyond doubt: a name can come back, a UID cannot."""

    namespace: str
    name: str
    uid: str
    owner: Owner | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    created_at: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data for XCom and triggers."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "owner": self.owner.to_dict() if self.owner else None,
            "annotations": dict(self.annotations),
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ClusterRef:
        """The inverse of ``to_dict``."""
        owner = data.get("owner")
        return cls(**{**data, "owner": Owner.from_dict(owner) if owner else None})

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is handed to the Ray Jobs API. ``id`` is deterministic; ``metadata`` carries owner and fingerprint."""

    id: str
    entrypoint: str
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_bytes: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log that can be collected: ``source`` is where it lives (pod and container, pod of a Ray node), ``name`` its
    name in the archive. ``missing`` says why it cannot be read, for a log that should be there: reading it raises.
    """

    source: str
    name: str
    size: int | None = None
    missing: str = ""


class RayJobs(Protocol):
    """The Ray Jobs API of one cluster. Raises errors.ApiUnreachable, errors.TokenRefused, errors.RequestRejected."""

    async def version(self) -> tuple[str, str]:
        """(ray version, session_name)."""
        ...

    async def state(self) -> Ray:
        """Nodes, jobs, placement groups, demand: the Ray side of a Snapshot."""
        ...

    async def get(self, submission_id: str) -> Job | None:
        """The submission, or None when Ray does not know it (404)."""
        ...

    async def list(self) -> tuple[Job, ...]:
        """All submissions of this session."""
        ...

    async def submit(self, submission: Submission) -> None:
        """POST. Raises errors.Conflict when the id exists already (Ray says HTTP 500 `already exists`)."""
        ...

    async def upload_package(self, name: str, archive: bytes) -> str:
        """Upload a working_dir zip unless Ray has it; returns its gcs:// URI."""
        ...

    async def status_without_token(self) -> int:
        """HTTP status of a request for the submissions that brings no token: what a stranger is told."""
        ...

    async def stop(self, submission_id: str) -> bool:
        """Ask Ray to stop it. True is no proof for a PENDING one (kuberay facts B3)."""
        ...

    async def read_driver_log(self, job: Job, offset: int, limit: int) -> bytes:
        """Bytes ``offset``..``offset+limit`` of the driver log; empty when there are none yet."""
        ...

    async def processes(self, job: Job) -> tuple[TrainingProcess, ...]:
        """The processes that train in a running submission, without samples."""
        ...

    async def stack(self, process: TrainingProcess) -> Sample:
        """One sample of a process's stack, or why there is none."""
        ...


class ClusterBackend(Protocol):
    """Creates, observes and deletes clusters."""

    name: str  # "kubernetes" | "local"

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def preflight(self, spec: ClusterSpec, namespace: str) -> list[str]:
        """Ask everything that can be asked before anything is created: reachable, permitted, CRD known, referenced
        secrets and claims there. Returns warnings. Raises ApiUnreachable, TokenRefused, PermissionMissing, InvalidSpec.
        """
        ...

    async def checkup(self) -> str:
        """One sentence for the test of a connection: what is reached and what may be done there.

        Raises ApiUnreachable, TokenRefused, PermissionMissing, InvalidSpec.
        """
        ...

    async def create(
        self, spec: ClusterSpec, owner: Owner, namespace: str, *, avoid: Collection[str] = ()
    ) -> ClusterRef:
        """Create the cluster, or adopt the one that this same owner (attempt included) made with the same spec.

        ``avoid`` are Kubernetes nodes that worker pods must keep away from. Raises ForeignObject, RequestRejected,
        InvalidSpec (a field that the installed CRD drops is named; so is what has no room without those nodes).
        """
        ...

    async def replace_pod(self, ref: ClusterRef, name: str, uid: str) -> None:
        """End this worker pod so that another takes its place; by UID, silent when it is gone. Does not wait."""
        ...

    async def find(self, namespace: str, selector: str) -> Sequence[ClusterRef]:
        """Clusters that carry these labels, oldest first."""
        ...

    async def annotate(self, ref: ClusterRef, annotations: Mapping[str, str | None]) -> None:
        """Set (or with None remove) annotations; refuses another UID."""
        ...

    async def resume(self, ref: ClusterRef) -> None:
        """Let a cluster that was created suspended have its pods; refuses another UID."""
        ...

    async def observe(self, ref: ClusterRef, *, ray: bool = True) -> Snapshot:
        """Everything now seen of this cluster. Missing pieces become gaps; raises only when nothing can be read."""
        ...

    def changes(self, ref: ClusterRef, *, at_least_every: float) -> AsyncIterator[None]:
        """Yields at once, then whenever something of this cluster may have changed, at least every so many seconds."""
        ...

    async def delete(self, ref: ClusterRef) -> None:
        """Delete by UID; silent when it is gone already. Does not wait."""
        ...

    async def remains(self, ref: ClusterRef) -> Sequence[str]:
        """Everything of this cluster that is still there, in words (``pod x (Terminating since …, finalizers …)``)."""
        ...

    def jobs(self, ref: ClusterRef) -> RayJobs:
        """The Ray Jobs API of this cluster."""
        ...

    async def logs(self, ref: ClusterRef) -> Sequence[LogFile]:
        """Every log that can be collected now."""
        ...

    def read_log(self, ref: ClusterRef, log: LogFile, *, limit: int) -> AsyncIterator[bytes]:
        """The log in blocks, at most ``limit`` bytes (head and tail kept, the cut is marked)."""
        ...

    async def dump(self, ref: ClusterRef) -> Mapping[str, Any]:
        """Raw objects of both layers for the archive: file name -> JSON data, secrets masked."""
        ...

    def dashboard_url(self, ref: ClusterRef) -> str | None:
        """Where a person opens the Ray dashboard, or None."""
        ...

    def way_in(self, ref: ClusterRef) -> str:
        """A command with which a person reaches the Ray dashboard of a kept cluster."""
        ...
