"""A world of clusters in memory for lifecycle tests: a ClusterBackend and a Ray Jobs API that refuse the unexpected.

A test writes what happens as ``steps``: one callable per wake-up of ``changes``. Waiting longer than the test foresaw
is an error, not a hang. Time passes one second per wake-up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from rayflight.archive import Archive
from rayflight.backends.base import ClusterRef, LogFile, RayJobs, Submission
from rayflight.errors import ApiUnreachable, Conflict, PermissionMissing
from rayflight.labels import FLIGHT, RUN, Owner
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.snapshot.hang import Sample, TrainingProcess
from rayflight.snapshot.model import Gap, Job, Ray, Snapshot
from rayflight.specs import ClusterSpec
from rayflight.states import JobStatus
from tests.made_up import NAME, NAMESPACE, SESSION, UID, snapshot

OWNER = Owner(airflow="test", dag_id="train", run_id="run-1", group="flight")
SHAPE = {"image": "ray:2.60.0", "groups": [{"name": "gpu", "replicas": 2, "gpus": 1}]}


class Jobs(RayJobs):
    """Ray's job table of one session."""

    def __init__(self) -> None:
        self.session = SESSION
        self.table: dict[str, Job] = {}
        self.log = b""
        self.submitted: list[Submission] = []
        self.stopped: list[str] = []
        self.packages: dict[str, bytes] = {}
        self.silent = False
        self.for_strangers = 401
        self.lose_answer = False
        self.after_lost_answer: Callable[[], object] = lambda: None
        self.stacks: dict[tuple[str, int], Callable[[], Sample]] = {}
        self.gpus_per_process = 1.0
        self.asked_for_stacks = 0

    def _answer(self) -> None:
        if self.silent:
            raise ApiUnreachable("The dashboard does not answer")

    async def version(self) -> tuple[str, str]:
        self._answer()
        return "2.60.0", self.session

    async def state(self) -> Ray:
        raise AssertionError("nobody should ask for this")

    async def get(self, submission_id: str) -> Job | None:
        self._answer()
        return self.table.get(submission_id)

    async def list(self) -> tuple[Job, ...]:
        self._answer()
        return tuple(self.table.values())

    async def submit(self, submission: Submission) -> None:
        self._answer()
        if submission.id in self.table:
            raise Conflict("Submission exists already", which=submission.id)
        self.submitted.append(submission)
        self.put(submission.id, JobStatus.PENDING, metadata=submission.metadata, entrypoint=submission.entrypoint)
        if self.lose_answer:
            self.lose_answer = False
            self.after_lost_answer()
            raise ApiUnreachable("The connection was dropped")

    async def upload_package(self, name: str, archive: bytes) -> str:
        self._answer()
        self.packages[name] = archive
        return f"gcs://{name}"

    async def status_without_token(self) -> int:
        self._answer()
        return self.for_strangers

    async def stop(self, submission_id: str) -> bool:
        self.stopped.append(submission_id)
        return True

    async def read_driver_log(self, job: Job, offset: int, limit: int) -> bytes:
        self._answer()
        return self.log[offset : offset + limit]

    async def processes(self, job: Job) -> tuple[TrainingProcess, ...]:
        self._answer()
        return tuple(
            TrainingProcess(pid=pid, ray_node=node, name="RayTrainWorker", gpus=self.gpus_per_process)
            for node, pid in self.stacks
        )

    async def stack(self, process: TrainingProcess) -> Sample:
        self._answer()
        self.asked_for_stacks += 1
        return self.stacks[process.ray_node, process.pid]()

    def put(self, submission_id: str, status: JobStatus, **changes: Any) -> None:
        known = self.table.get(submission_id) or Job(id=submission_id, status=status)
        self.table[submission_id] = replace(known, status=status, **changes)

    def lose_head(self, session: str = "session_2") -> None:
        self.session, self.table = session, {}


@dataclass
class World:
    """Every cluster there is."""

    clusters: list[ClusterRef] = field(default_factory=list)
    ray: Jobs = field(default_factory=Jobs)
    seen: Snapshot = field(default_factory=snapshot)
    steps: list[Callable[[], object]] = field(default_factory=list)
    time: datetime = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
    said: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    left: dict[str, Sequence[str]] = field(default_factory=dict)
    specs: list[ClusterSpec] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    avoided: list[tuple[str, ...]] = field(default_factory=list)
    replaced: list[tuple[str, str]] = field(default_factory=list)
    refuses_to_delete: set[str] = field(default_factory=set)
    name: str = "fake"

    def tools(self, folder: Path) -> Tools:
        return Tools(backend=self, archive=Archive(folder, url=folder.as_uri()), say=self.say, now=lambda: self.time)

    def say(self, message: str, /, *args: object) -> None:
        self.said.append(message % args if args else message)

    def hold(self, owner: Owner = OWNER, *, uid: str = UID, **annotations: str) -> ClusterRef:
        """There is a cluster of this owner."""
        created = (self.time + timedelta(seconds=len(self.clusters))).isoformat()
        ref = ClusterRef(
            namespace=NAMESPACE, name=NAME if uid == UID else owner.cluster_name, uid=uid, owner=owner,
            annotations={f"rayflight.io/{key.replace('_', '-')}": value for key, value in annotations.items()},
            created_at=created,
        )  # fmt: skip
        self.clusters.append(ref)
        return ref

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def preflight(self, spec: ClusterSpec, namespace: str) -> list[str]:
        return []

    async def checkup(self) -> str:
        return "All is well."

    async def create(
        self, spec: ClusterSpec, owner: Owner, namespace: str, *, avoid: Collection[str] = ()
    ) -> ClusterRef:
        self.avoided.append(tuple(avoid))
        for ref in self.clusters:
            if ref.owner == owner:
                return ref
        self.specs.append(spec)
        return self.hold(owner, uid=f"uid-{owner.attempt}-{owner.renewal}-{owner.map_index}")

    async def replace_pod(self, ref: ClusterRef, name: str, uid: str) -> None:
        assert any(item.uid == ref.uid for item in self.clusters)
        if ref.uid in self.refuses_to_delete:
            raise PermissionMissing("No permission to delete", which=f"pod {name}", why="no permission")
        self.replaced.append((name, uid))

    async def find(self, namespace: str, selector: str) -> Sequence[ClusterRef]:
        assert namespace == NAMESPACE
        wanted = dict(part.split("=") for part in selector.split(","))
        return [
            ref
            for ref in self.clusters
            if ref.owner and all(ref.owner.labels()[key] == wanted[key] for key in (FLIGHT, RUN) if key in wanted)
        ]

    async def annotate(self, ref: ClusterRef, annotations: Mapping[str, str | None]) -> None:
        at = next(index for index, item in enumerate(self.clusters) if item.uid == ref.uid)
        merged = {**self.clusters[at].annotations, **annotations}
        self.clusters[at] = replace(
            self.clusters[at], annotations={key: value for key, value in merged.items() if value is not None}
        )

    async def resume(self, ref: ClusterRef) -> None:
        self.resumed.append(ref.uid)

    async def observe(self, ref: ClusterRef, *, ray: bool = True) -> Snapshot:
        cluster, seen = self.seen.cluster, self.seen.ray
        jobs = tuple(self.ray.table.values())
        return replace(
            self.seen,
            cluster=replace(cluster, uid=ref.uid) if cluster else None,
            pods=tuple(replace(pod, owner_uid=ref.uid) for pod in self.seen.pods),
            ray=replace(seen, session=self.ray.session, jobs=jobs) if seen and not self.ray.silent else None,
            gaps=(Gap(source="ray", why="no answer"),) if self.ray.silent else (),
        )

    async def changes(self, ref: ClusterRef, *, at_least_every: float) -> AsyncIterator[None]:
        yield
        while self.steps:
            self.time += timedelta(seconds=1)
            self.steps.pop(0)()
            yield
        raise AssertionError("the recipe waits longer than the test foresaw")

    async def delete(self, ref: ClusterRef) -> None:
        if ref.uid in self.refuses_to_delete:
            raise PermissionMissing("No permission to delete", which=str(ref), why="no permission")
        self.deleted.append(ref.uid)
        self.clusters = [item for item in self.clusters if item.uid != ref.uid]

    async def remains(self, ref: ClusterRef) -> Sequence[str]:
        return self.left.get(ref.uid, ())

    def jobs(self, ref: ClusterRef) -> RayJobs:
        return self.ray

    async def logs(self, ref: ClusterRef) -> Sequence[LogFile]:
        return [LogFile(source="pod head/ray-head", name="head.log")]

    async def read_log(self, ref: ClusterRef, log: LogFile, *, limit: int) -> AsyncIterator[bytes]:
        yield b"a line\n"

    async def dump(self, ref: ClusterRef) -> Mapping[str, Any]:
        return {"pods.json": {"items": []}}

    def dashboard_url(self, ref: ClusterRef) -> str | None:
        return None

    def way_in(self, ref: ClusterRef) -> str:
        return f"port-forward {ref.name}"


def flight(**changes: Any) -> Flight:
    made = Flight(owner=OWNER, namespace=NAMESPACE, spec=SHAPE, archive="file:///archive", verify=False)
    return replace(made, **changes)
