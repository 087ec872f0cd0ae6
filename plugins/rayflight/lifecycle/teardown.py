"""Deletes every cluster of a flight by UID, waits until nothing of it is left, and says how long GPUs were held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rayflight.backends.base import ClusterRef
from rayflight.errors import ApiUnreachable, TeardownIncomplete
from rayflight.labels import KEEP_UNTIL
from rayflight.lifecycle.flight import Flight, Tools, recording
from rayflight.lifecycle.provision import clusters_of
from rayflight.snapshot.model import Pod, Snapshot
from rayflight.specs import TeardownPolicy

_LOOK = timedelta(days=1)  # how long `on_success` keeps a failed cluster: GPUs must not stand idle for ever
_POLL = 1.0  # seconds; pods are watched, other kinds that may remain are not


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Proof of a teardown: made only when nothing is left but what the policy ``kept``; GPU-seconds of all pods."""

    clusters: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    gpu_seconds: float = 0.0
    seconds: float = 0.0
    how_to_reach: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: XCom would keep a tuple as a tuple, and every other reader of it stumble."""
        return {**asdict(self), "clusters": list(self.clusters), "kept": list(self.kept)}


@dataclass
class HeldGpus:
    """Adds up device seconds: from a pod's start on its node until it was seen gone."""

    pods: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    gone: dict[str, datetime] = field(default_factory=dict)

    def see(self, snapshot: Snapshot, now: datetime) -> None:
        """Note every GPU pod that is there, and when one is there no more."""
        present = set()
        for pod in snapshot.pods:
            count = gpus(pod)
            start = _scheduled_at(pod)
            if count and start:
                present.add(pod.uid)
                self.pods.setdefault(pod.uid, (count, start))
        for uid in self.pods.keys() - present:
            self.gone.setdefault(uid, now)

    def seconds(self, now: datetime) -> float:
        """GPU-seconds held until now."""
        return sum(
            count * max(0.0, (self.gone.get(uid, now) - start).total_seconds())
            for uid, (count, start) in self.pods.items()
        )


def gpus(pod: Pod) -> float:
    """Devices that the pod's limits claim, of any vendor (KubeRay's rule: the key ends with `gpu` or is MIG)."""
    keys = {key for item in pod.containers for key in item.limits if key.endswith("gpu") or "/mig-" in key}
    return sum(pod.limit(key) for key in keys)


async def tear_down(tools: Tools, flight: Flight, *, failed: bool, deadline: datetime) -> Landing:
    """Every attempt of this flight. Raises TeardownIncomplete at the deadline, naming what is left and why."""
    began = tools.now()
    refs = list(await clusters_of(tools, flight))
    held = HeldGpus()
    for ref in refs:
        held.see(await tools.observe(ref, ray=False), tools.now())
    policy = flight.teardown_policy
    if refs and policy.keeps(failed=failed):
        return await _keep(tools, refs, policy, held)
    for ref in refs:
        tools.say("Deleting cluster %s (uid %s)", ref, ref.uid)
        await tools.backend.delete(ref)
    for ref in refs:
        await _gone(tools, ref, held, deadline)
        await tools.recorder.publish(recording(ref))
    landing = Landing(
        clusters=tuple(str(ref) for ref in refs),
        gpu_seconds=round(held.seconds(tools.now()), 1),
        seconds=round((tools.now() - began).total_seconds(), 1),
    )
    tools.say(
        "Landed: %d cluster(s) gone with all pods and services; %sGPUs were held for %.0f GPU-seconds",
        len(refs),
        "SIMULATED " if flight.cluster_spec.simulated else "",
        landing.gpu_seconds,
    )
    await tools.archive.write_json(f"{flight.folder}/landing.json", landing.to_dict())
    return landing


async def gone(tools: Tools, flight: Flight, *, deadline: datetime) -> Landing:
    """Wait, delete nothing. Raises TeardownIncomplete."""
    refs = await clusters_of(tools, flight)
    held = HeldGpus()
    for ref in refs:
        await _gone(tools, ref, held, deadline)
    return Landing(clusters=tuple(str(ref) for ref in refs), gpu_seconds=round(held.seconds(tools.now()), 1))


async def _gone(tools: Tools, ref: ClusterRef, held: HeldGpus, deadline: datetime) -> None:
    left: Sequence[str] = ()
    said: tuple[str, ...] = ()
    async for _ in tools.backend.changes(ref, at_least_every=_POLL):
        try:
            left = await tools.backend.remains(ref)
            held.see(await tools.observe(ref, ray=False), tools.now())
        except ApiUnreachable as error:
            left = (f"unknown: {error}",)
        if not left:
            return
        if tuple(left) != said:
            said = tuple(left)
            tools.say("Still there: %s", "; ".join(left))
        if tools.now() >= deadline:
            break
    raise TeardownIncomplete(
        "The teardown is not complete:",
        which=str(ref),
        why="still there: " + "; ".join(left),
        next_step="see the finalizers and nodes named here; the janitor tries again, and clearing `tear_down` does too",
    )


async def _keep(tools: Tools, refs: Sequence[ClusterRef], policy: TeardownPolicy, held: HeldGpus) -> Landing:
    until = tools.now() + (policy.keep_for or _LOOK)
    for ref in refs:
        await tools.backend.annotate(ref, {KEEP_UNTIL: until.isoformat(timespec="seconds")})
    names = tuple(str(ref) for ref in refs)
    reach = "; ".join(tools.backend.way_in(ref) for ref in refs)
    tools.say(
        "Kept until %s for a look: %s. Reach the dashboard with: %s. "
        "The janitor deletes it then, or earlier when told to release it",
        until.isoformat(timespec="seconds"),
        ", ".join(names),
        reach,
    )
    return Landing(clusters=names, kept=names, gpu_seconds=round(held.seconds(tools.now()), 1), how_to_reach=reach)


def _scheduled_at(pod: Pod) -> datetime | None:
    """When the pod got its node: from then on its devices are taken."""
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.status != "True":
        return None
    since = scheduled.since or pod.started_at or pod.created_at
    return datetime.fromisoformat(since) if since else None
