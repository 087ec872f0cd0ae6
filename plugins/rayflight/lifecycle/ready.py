"""Waits until a cluster is truly ready, and fails as soon as it is clear that it never will be.

Ready is what ``snapshot.readiness`` says: every desired pod mapped to an ALIVE Ray node in one session. KubeRay's own
``state`` and RayClusterProvisioned are not asked (both lie). Which signs end the wait is the diagnosis' business.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from rayflight.backends.base import ClusterRef
from rayflight.diagnosis import decisive, diagnose
from rayflight.errors import ApiUnreachable, ClusterFailed, ClusterGone, WaitTimedOut
from rayflight.findings import Diagnosis
from rayflight.labels import READY_SESSION
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.turns import take_turn
from rayflight.snapshot.model import Snapshot
from rayflight.snapshot.readiness import readiness
from rayflight.snapshot.times import seconds_between

_POLL = 1.0  # seconds; only Ray's own state has no watch
_TURN = timedelta(seconds=5)  # how often a waiting cluster of a sweep looks whether it is its turn


@dataclass
class _Voice:
    """Says what is waited for, once per change."""

    tools: Tools
    last: str = ""
    turn_at: datetime | None = None

    def say(self, message: str) -> None:
        if message != self.last:
            self.last = message
            self.tools.say("Waiting: %s", message)


async def wait_ready(tools: Tools, flight: Flight, ref: ClusterRef, *, deadline: datetime) -> Snapshot:
    """Returns the snapshot in which the cluster was ready, and notes its session on the cluster.

    Raises ClusterFailed (with the cause) for what cannot heal, ClusterGone, WaitTimedOut at the deadline.
    """
    voice = _Voice(tools)
    snapshot: Snapshot | None = None
    async for _ in tools.backend.changes(ref, at_least_every=_POLL):
        try:
            snapshot = await _look(tools, ref)
        except ApiUnreachable as error:
            voice.say(str(error))
        else:
            state = readiness(snapshot)
            if state.ready and state.session:
                await tools.backend.annotate(ref, {READY_SESSION: state.session})
                tools.say("Cluster %s is ready: %d Ray nodes in session %s", ref, len(state.mapped), state.session)
                return snapshot
            _stop_if_gone(ref, snapshot)
            if snapshot.cluster and snapshot.cluster.suspended and not flight.cluster_spec.queue:
                await _turn(tools, flight, ref, voice)
            else:
                voice.say(_queued(_stop_if_hopeless(ref, snapshot), snapshot) or state.waiting_for)
        if tools.now() >= deadline:
            break
    diagnosis = diagnose(snapshot) if snapshot else Diagnosis(verdict="unknown", facts=(voice.last,))
    if diagnosis.cause is None:
        diagnosis = Diagnosis(
            verdict="unknown", facts=(f"still waiting for {voice.last}", *diagnosis.facts), gaps=diagnosis.gaps
        )
    raise WaitTimedOut("The cluster did not become ready in time", which=str(ref), diagnosis=diagnosis)


def times_of(snapshot: Snapshot) -> dict[str, float]:
    """Seconds since the RayCluster was created: until its last pod had a node (``queued``), until now (``ready``)."""
    created = snapshot.cluster.created_at if snapshot.cluster else None
    conditions = [pod.condition("PodScheduled") for pod in snapshot.pods if pod.deleting_since is None]
    scheduled = [it.since for it in conditions if it and it.status == "True" and it.since]
    complete = bool(conditions) and len(scheduled) == len(conditions)
    queued = seconds_between(created, max(scheduled)) if complete else None
    found = {"queued": queued, "ready": seconds_between(created, snapshot.taken_at)}
    return {name: max(0.0, value) for name, value in found.items() if value is not None}


async def _turn(tools: Tools, flight: Flight, ref: ClusterRef, voice: _Voice) -> None:
    if voice.turn_at is None or tools.now() >= voice.turn_at:
        voice.turn_at = tools.now() + _TURN
        voice.say(await take_turn(tools, flight, ref))


async def _look(tools: Tools, ref: ClusterRef) -> Snapshot:
    """Kubernetes first: Ray is asked only when its pods could answer: waiting for capacity costs no requests."""
    snapshot = await tools.observe(ref, ray=False)
    cluster = snapshot.cluster
    if cluster is None:
        return snapshot
    running = sum(1 for pod in snapshot.pods if pod.phase == "Running" and pod.deleting_since is None)
    return await tools.observe(ref) if running >= cluster.desired_pods or _seeks_its_head(snapshot) else snapshot


def _seeks_its_head(snapshot: Snapshot) -> bool:
    """Whether a worker's init container still looks for a head that is Ready: why, only Ray's answer can tell."""
    served = snapshot.head.condition("Ready") if snapshot.head else None
    if served is None or served.status != "True":
        return False
    return any(item.init and item.state == "running" for pod in snapshot.workers() for item in pod.containers)


def _stop_if_gone(ref: ClusterRef, snapshot: Snapshot) -> None:
    if snapshot.cluster is None or snapshot.cluster.uid != ref.uid:
        raise ClusterGone(
            "The cluster vanished while it was awaited:",
            which=str(ref),
            why="the RayCluster does not exist any more" if snapshot.cluster is None else "another one has its name",
            next_step="see who deleted it (audit log, a janitor, a quota controller), then clear `provision`",
        )


def _stop_if_hopeless(ref: ClusterRef, snapshot: Snapshot) -> Diagnosis:
    diagnosis = diagnose(snapshot)
    if decisive(diagnosis):
        raise ClusterFailed("The cluster cannot become ready", which=str(ref), diagnosis=diagnosis)
    return diagnosis


def _queued(diagnosis: Diagnosis, snapshot: Snapshot) -> str:
    """Of a cluster that Kueue holds: why, at which place, behind whom."""
    held = snapshot.cluster is not None and snapshot.cluster.suspended
    return diagnosis.cause.summary if held and diagnosis.cause else ""
