"""What a rule sees: the snapshot, what was noted before, and questions that many rules ask. Pure: no clock, no I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

from rayflight.diagnosis import quoting
from rayflight.findings import Finding
from rayflight.snapshot.model import Cluster, Event, Job, Pod, Snapshot
from rayflight.snapshot.times import seconds_between
from rayflight.states import JobStatus

# ray/_private/{node,services,utils}.py: each waits some 30 s for another process of the same start.
_GAVE_UP = re.compile(
    r"The current node timed out during startup|No node info found for head node in GCS|Timed out waiting for node info"
)
_EXIT_CODE = re.compile(r"entrypoint command failed with exit code (?P<code>-?\d+)")
_POD_PREFIX = 50  # KubeRay keeps the first 50 characters of <cluster>-<group> in pod names


@dataclass(frozen=True, kw_only=True)
class Case:
    """One snapshot to judge. ``before`` is an earlier one; ``session`` and ``submission`` were noted at submit.

    Without slots: the events are indexed once, or hundreds of pods would each read tens of thousands of them.
    """

    now: Snapshot
    before: Snapshot | None = None
    session: str | None = None
    submission: str | None = None

    @property
    def cluster(self) -> Cluster | None:
        """The stored RayCluster unless it is on its way out: what is deleted has no faults of its own."""
        found = self.now.cluster
        return found if found is not None and found.deleting_since is None else None

    @property
    def earlier(self) -> Snapshot | None:
        """The earlier snapshot, if it is of this very cluster: a name can come back, a UID cannot."""
        then, now = self.before.cluster if self.before else None, self.now.cluster
        return self.before if then is None or now is None or then.uid == now.uid else None

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Pods that are not on their way out, of a cluster that is not."""
        if self.cluster is None:
            return ()
        return tuple(pod for pod in self.now.pods if pod.deleting_since is None)

    @property
    def job(self) -> Job | None:
        """The submission that was noted, else the newest one; where Ray knows none, what its RayJob keeps of it."""
        jobs = self.now.ray.jobs if self.now.ray else ()
        if self.submission is not None:
            return next((item for item in jobs if item.id == self.submission), None)
        return jobs[-1] if jobs else self._kept_by_rayjob

    @property
    def _kept_by_rayjob(self) -> Job | None:
        """KubeRay copies the end of a job into its RayJob, which outlives cluster and head."""
        mine = (item for item in self.now.rayjobs or () if self.now.name in (item.cluster, item.name))
        kept = next((item for item in mine if item.submission and item.status in ("FAILED", "SUCCEEDED")), None)
        if kept is None:
            return None
        code = _EXIT_CODE.search(kept.message)
        return Job(
            id=kept.submission,
            status=JobStatus(kept.status),
            message=kept.message,
            started_at=kept.started_at,
            ended_at=kept.ended_at,
            driver_exit_code=int(code["code"]) if code else None,
        )

    @property
    def flying(self) -> bool:
        """Whether something runs on the cluster that would be lost with it."""
        noted = self.session is not None or self.submission is not None
        return noted or any(seen.ray and seen.ray.jobs for seen in (self.now, self.earlier) if seen)

    @property
    def noted_session(self) -> str | None:
        """The Ray session at submission, else the one that an earlier moment saw."""
        if self.session is not None:
            return self.session
        return self.earlier.ray.session if self.earlier and self.earlier.ray else None

    @property
    def staying(self) -> Snapshot:
        """Without workers that go, or lie Failed beside as many as are desired: they are no lack by themselves."""
        groups = {item.name: item.desired for item in (self.cluster.groups if self.cluster else ())}
        going = [pod for pod in self.now.pods if pod.role == "worker" and (pod.deleting_since or pod.phase == "Failed")]
        left = [pod for pod in self.now.pods if pod not in going]
        have = Counter(pod.group for pod in left if pod.role == "worker")
        spare = [pod for pod in going if pod.deleting_since or have[pod.group] >= groups.get(pod.group, 1)]
        return replace(self.now, pods=tuple(pod for pod in self.now.pods if pod not in spare)) if spare else self.now

    def driver_log(self, job: Job) -> str:
        """The submission's last words: Ray's message and what of its log was read."""
        return f"{job.message}\n{self.now.logs.get(f'driver/{job.id}', '')}"

    def logs_of(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """(name, text) of the logs of the pod's containers and Ray processes."""
        return ((name, text) for name, text in self.now.logs.items() if name.startswith(f"{pod.name}/"))

    def gave_up_to_start(self, pod: Pod, container: str) -> tuple[str, str] | None:
        """(log, line) in which `ray start` says that it ran into a time-out of its own."""
        for name, text in self.logs_of(pod):
            found = _GAVE_UP.search(text) if name.split("/")[1] == container else None
            if found:
                return name, quoting.line_of(found)
        return None

    def can_see(self, *sources: str) -> bool:
        """Whether none of these parts of the snapshot has a gap."""
        return all(self.now.gap(source) is None for source in sources)

    def age(self, since: str | None) -> float | None:
        """Seconds from then to the snapshot."""
        return seconds_between(since, self.now.taken_at)

    def lasts(self, since: str | None, seconds: float) -> bool:
        """Whether it has been so for that long; False when nobody knows since when."""
        age = self.age(since)
        return age is not None and age >= seconds

    def events(self, *reasons: str, about: Pod | None = None) -> tuple[Event, ...]:
        """Events with one of the reasons, about the pod or (None) about the RayCluster; oldest first."""
        uid = about.uid if about else (self.now.cluster.uid if self.now.cluster else "")
        kind = "Pod" if about else "RayCluster"
        return tuple(item for item in self._events_about.get((kind, uid), ()) if item.reason in reasons)

    @cached_property
    def _events_about(self) -> dict[tuple[str, str], list[Event]]:
        found: dict[tuple[str, str], list[Event]] = {}
        for item in self.now.events:
            found.setdefault((item.kind, item.uid), []).append(item)
        return found

    def noticed(self, pod: Pod) -> bool:
        """Whether any event speaks of the pod."""
        return ("Pod", pod.uid) in self._events_about

    def pod_events(self, *reasons: str) -> tuple[Event, ...]:
        """Events about any pod of this cluster, gone ones included; oldest first."""
        known = {pod.uid for pod in self.now.pods} | {pod.uid for pod in (self.earlier.pods if self.earlier else ())}
        created = self.now.cluster.created_at if self.now.cluster else None
        prefix = f"{self.now.name}-"[:_POD_PREFIX]
        return tuple(
            item
            for item in self.now.events
            if item.kind == "Pod"
            and item.reason in reasons
            and (item.uid in known or item.name.startswith(prefix))
            and (created is None or (item.last_at or "") >= created)
        )

    def missing_pods(self) -> int:
        """How many desired pods do not exist; 0 when that cannot be known."""
        if self.cluster is None or self.cluster.suspended or not self.can_see("pods"):
            return 0
        short = sum(max(group.desired - len(self.now.workers(group.name)), 0) for group in self.cluster.groups)
        return short + (0 if self.now.head else 1)


class Depth(IntEnum):
    """How deep a cause lies: the smaller number explains the larger."""

    NODE = 0  # machine, device, registry, volume behind it
    ADMISSION = 1  # what the API server or the operator refused
    SCHEDULING = 2  # where pods go
    CONTAINER = 3  # how containers start and end
    CLUSTER = 4  # Ray's own nodes and head
    JOB = 5  # what runs on Ray


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A question to a Case. ``ids`` are the findings it can give; it gives none when a deciding fact is missing.

    ``ends_jobs``: what it finds ends a running job by itself. The rest of Kubernetes' faults end one only when the job
    is stuck for them: it may well do without the pod that cannot come.
    ``symptom``: it names no cause of its own, and is said only as a consequence of one.
    ``past``: what it finds is something that happened, not a state that lasts: it may be over.
    """

    ids: tuple[str, ...]
    depth: Depth
    check: Callable[[Case], Iterable[Finding]]
    ends_jobs: bool = False
    past: bool = False
    symptom: bool = False
