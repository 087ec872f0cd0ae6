"""Looks into the silence of a running submission: when it is due, two samples of all stacks, one diagnosis.

Costs nothing while lines and reports come. Holds only its clocks: a triggerer that is started anew starts the silence
anew, so that a hang is found later by that, and never by mistake.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median

from rayflight.backends.base import ClusterRef, RayJobs
from rayflight.diagnosis import diagnose
from rayflight.diagnosis.kinds import hangs as kinds
from rayflight.errors import ApiError
from rayflight.findings import Decision, Diagnosis, Finding
from rayflight.lifecycle.driver_log import DriverLog
from rayflight.lifecycle.flight import Tools
from rayflight.lifecycle.hang_probe import look_inside
from rayflight.lifecycle.hang_records import keep
from rayflight.snapshot.hang import Hang, Sample, TrainingProcess
from rayflight.snapshot.model import Job, Snapshot
from rayflight.snapshot.readiness import map_pods
from rayflight.specs import OnHang
from rayflight.states import JobStatus

_UNKNOWN_STEP = timedelta(minutes=30)  # as long as the run has not shown its own pace
_LEAST = timedelta(minutes=10)
_STEPS = 10  # of the run's own median step
_PACE = 3  # intervals between reports from which a pace is read
_BETWEEN = timedelta(seconds=8)  # the samples: long enough for a poll or a batch, short beside any threshold
_AT_ONCE = 8  # questions for stacks: each starts a py-spy in a pod
_AGAIN = timedelta(seconds=30)  # after a look that nobody answered
_IDS = frozenset(kind.id for kind in kinds.KINDS)


@dataclass
class HangWatch:
    """One submission's silence. ``on_hang`` and ``after`` are the job's own; ``folder`` is where evidence is kept."""

    tools: Tools
    ref: ClusterRef
    folder: str
    submission: str
    session: str
    on_hang: OnHang = OnHang.REPORT
    after: timedelta | None = None
    finding: Finding | None = None  # what the last look found, while the silence lasts
    line_at: datetime | None = None
    report_at: datetime | None = None
    busy_at: datetime | None = None  # when a GPU last did something
    not_before: datetime | None = None
    offset: int = 0
    reports: int = 0
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    first: tuple[TrainingProcess, ...] = ()
    first_at: datetime | None = None
    looks: int = 0

    def heard(self, log: DriverLog) -> None:
        """Note what the driver log has brought since the last call."""
        now = self.tools.now()
        if self.line_at is None:  # what was printed before we came says nothing about the pace
            self.line_at, self.offset, self.reports = now, log.offset, log.reports
            return
        new, since = log.reports - self.reports, self._silent_since() or now
        if new and self.report_at is not None:
            self.steps.extend([(now - self.report_at).total_seconds() / new] * min(new, _PACE))
        if new:
            self.report_at = now
        if new or (log.offset != self.offset and not self._reports_count() and since != self.busy_at):
            self._moved(now - since)
        if log.offset != self.offset:
            self.line_at = now
        self.offset, self.reports = log.offset, log.reports

    @property
    def threshold(self) -> timedelta:
        """The silence after which stacks are taken."""
        if self.after is not None:
            return self.after
        if len(self.steps) < _PACE:
            return _UNKNOWN_STEP
        return max(_LEAST, timedelta(seconds=_STEPS * median(self.steps)))

    async def look(self, api: RayJobs, job: Job, seen: Snapshot, log: DriverLog) -> Diagnosis | None:
        """Take a sample if one is due. Returns the diagnosis that ends the training, or None. Raises nothing."""
        now = self.tools.now()
        self._note_gpus(seen, now)
        since = self._silent_since()
        if since is None or job.status is not JobStatus.RUNNING or seen.ray is None:
            return None
        if self.not_before and now < self.not_before:
            return None
        if self.first_at is not None and since > self.first_at:  # it moved between the samples
            self.first, self.first_at = (), None
        if self.first_at is None and now - since < self.threshold * 2**self.looks:
            return None
        if self.first_at is not None and now - self.first_at < _BETWEEN:
            return None
        try:
            return await self._sample(api, job, seen, log, since)
        except ApiError as error:
            self.tools.say("The silence of %s could not be looked into: %s", job.id, error)
            self.first, self.first_at, self.not_before = (), None, now + _AGAIN
            return None

    async def _sample(
        self, api: RayJobs, job: Job, seen: Snapshot, log: DriverLog, since: datetime
    ) -> Diagnosis | None:
        now = self.tools.now()
        if self.first_at is None:
            known = await api.processes(job)
            if not known:  # (yet): Ray Train starts its ranks, or a script never called ray.init
                if self.not_before is None:
                    self.tools.say("%s, and no process of this training is there to be asked", self._sign(now, since))
                self.not_before = now + _AGAIN
                return None
            self.first = await _sampled(api, _placed(known, seen, log.ranks))
            self.first_at = now
            self.tools.say("%s: taking the stacks of %d processes", self._sign(now, since), len(self.first))
            return None
        processes = await look_inside(self.tools, api, self.ref, await _sampled(api, self.first))
        taken_at = tuple(at.isoformat() for at in (self.first_at, now))
        hang = Hang(
            submission=job.id,
            since=since.isoformat(),
            sign=self._sign(now, since),
            on_hang=self.on_hang,
            taken_at=taken_at,
            processes=processes,
        )
        self.first, self.first_at, self.looks = (), None, self.looks + 1
        return await self._judge(hang, seen, log)

    async def _judge(self, hang: Hang, seen: Snapshot, log: DriverLog) -> Diagnosis | None:
        diagnosis = diagnose(
            replace(seen, hang=hang), submission=self.submission, session=self.session, log_tail=log.tail
        )
        cause = diagnosis.cause
        mine = next((it for it in (cause, *diagnosis.consequences) if it is not None and it.id in _IDS), None)
        ends = mine is not None and mine.decision is not Decision.WAIT
        await keep(self.tools.archive, self.folder, replace(hang, ended=ends), diagnosis)
        before, self.finding = self.finding, mine
        if mine is None or cause is None:
            self.tools.say("%s; its stacks show no hang: %s", hang.sign, _unclear(hang))
            return None
        same = before is not None and (before.id, before.objects) == (mine.id, mine.objects)
        self.tools.say("%s", f"{hang.sign}: still {mine.id}" if same else diagnosis.sentence())
        return diagnosis if ends else None

    def _moved(self, silent: timedelta) -> None:
        """Progress: what was suspected before is over."""
        if self.looks:
            self.tools.say("%s goes on after %.0f s of silence", self.submission, silent.total_seconds())
        self.first, self.first_at, self.looks, self.finding, self.not_before = (), None, 0, None, None

    def _reports_count(self) -> bool:
        """Whether the training's own reports are its pulse; lines of Ray itself then say nothing."""
        return len(self.steps) >= _PACE

    def _note_gpus(self, seen: Snapshot, now: datetime) -> None:
        """GPUs that never did anything yet, or of which nobody says anything, are no sign."""
        used = [percent for node in (seen.ray.alive() if seen.ray else ()) for percent in node.gpu_use]
        if any(used):
            self.busy_at = now
        elif not used:
            self.busy_at = None

    def _silent_since(self) -> datetime | None:
        """The training's reports are its pulse where it makes any; else lines, and GPUs that fell idle."""
        if self._reports_count() and self.report_at:
            return self.report_at
        return min((at for at in (self.line_at, self.busy_at) if at), default=None)

    def _sign(self, now: datetime, since: datetime) -> str:
        silent = f"for {(now - since).total_seconds():.0f} s"
        if self._reports_count():
            return f"no training report {silent}, its usual step takes {median(self.steps):.3g} s"
        return f"all GPUs idle {silent}" if since == self.busy_at else f"no line of the driver {silent}"


async def _sampled(api: RayJobs, processes: tuple[TrainingProcess, ...]) -> tuple[TrainingProcess, ...]:
    """Each with one more sample."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(process: TrainingProcess) -> TrainingProcess:
        async with gate:
            return replace(process, samples=(*process.samples, await api.stack(process)))

    return tuple(await asyncio.gather(*(one(process) for process in processes)))


def _placed(
    processes: tuple[TrainingProcess, ...], seen: Snapshot, ranks: Mapping[tuple[str, int], tuple[int, int]]
) -> tuple[TrainingProcess, ...]:
    """With rank, pod, Kubernetes node and GPU, as far as they are known; by rank."""
    addresses = {node.id: node.ip for node in (seen.ray.nodes if seen.ray else ())}
    pods = {node.id: name for name, found in map_pods(seen).candidates.items() for node in found}
    places = {pod.name: pod.node for pod in seen.pods}
    placed = []
    for process in processes:
        rank, _ = ranks.get((addresses.get(process.ray_node, ""), process.pid), (None, None))
        pod = pods.get(process.ray_node, "")
        placed.append(replace(process, rank=rank, pod=pod, node=places.get(pod) or ""))
    return _with_gpus(sorted(placed, key=lambda it: (it.rank is None, it.rank or 0, it.ray_node, it.pid)), seen)


def _with_gpus(processes: Sequence[TrainingProcess], seen: Snapshot) -> tuple[TrainingProcess, ...]:
    """Ray Train gives the ranks of a Ray node its GPUs in order; while some are free, nobody says which they have."""
    all_of = {node.id: node.resources.get("GPU", 0.0) for node in (seen.ray.nodes if seen.ray else ())}
    taken: dict[str, float] = {}
    for process in processes:
        taken[process.ray_node] = taken.get(process.ray_node, 0.0) + process.gpus
    before: dict[str, float] = {}
    known = []
    for process in processes:
        first = before.get(process.ray_node, 0.0)
        before[process.ray_node] = first + process.gpus
        whole = process.gpus >= 1 and taken[process.ray_node] == all_of.get(process.ray_node)
        known.append(replace(process, gpu=f"{first:.0f}") if whole else process)
    return tuple(known)


def _unclear(hang: Hang) -> str:
    samples: list[Sample] = [sample for process in hang.processes for sample in process.samples]
    whys = {sample.why for sample in samples if sample.why}
    if not any(sample.frames for sample in samples):
        return f"there are none ({'; '.join(sorted(whys))[:300]})"
    return "what was seen moves between two samples, or computes"
