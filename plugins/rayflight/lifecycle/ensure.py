"""Retry means: make sure. ``ensure`` brings a flight to a stage from wherever the world stands (decision 3).

Every waiting task calls it: on the first try the attempt's own cluster must be there; a later try renews what is gone
or condemned, under a renewal number of its own, so that no name is ever used twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rayflight.backends.base import ClusterRef
from rayflight.errors import ApiUnreachable, ClusterGone, Diagnosed
from rayflight.findings import Check, Decision
from rayflight.labels import CONDEMNED, READY_SESSION, TAKEN, VERIFIED_SESSION
from rayflight.lifecycle.collect import collect
from rayflight.lifecycle.flight import Flight, Tools, current_cluster
from rayflight.lifecycle.provision import provision
from rayflight.lifecycle.ready import times_of, wait_ready
from rayflight.lifecycle.verify import verify
from rayflight.states import Stage

# Renewal numbers of the stages do not overlap: the newest cluster always has the highest number.
_BASE = {Stage.WAIT_READY: 0, Stage.VERIFY: 100, Stage.TRAIN: 200}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensured:
    """The cluster as it then stands in the world, the matrix where one was made, how long it took."""

    ref: ClusterRef
    checks: tuple[Check, ...] = ()
    times: Mapping[str, float] = field(default_factory=dict)


async def require_cluster(tools: Tools, flight: Flight) -> ClusterRef:
    """This attempt's newest cluster. Raises ClusterGone when there is none."""
    ref = await current_cluster(tools, flight)
    if ref is None:
        raise ClusterGone(
            "This attempt has no cluster:",
            which=f"{flight.namespace}/{flight.owner.cluster_name}",
            why="it was deleted, or never created",
            next_step="clear `provision` with downstream",
        )
    return ref


async def usable_cluster(tools: Tools, flight: Flight, stage: Stage, *, try_number: int) -> ClusterRef | None:
    """The cluster that this try may use, or None when it must be renewed. Raises ClusterGone on the first try."""
    if try_number <= 1:
        return await require_cluster(tools, flight)
    ref = await current_cluster(tools, flight)
    condemned = await why_condemned(tools, flight, ref, stage)
    if condemned is None:
        return ref
    tools.say("The next cluster of this attempt is needed: %s", condemned)
    return None


async def why_condemned(tools: Tools, flight: Flight, ref: ClusterRef | None, stage: Stage) -> str | None:
    """Why nothing may be done on it any more, or None: gone, condemned by a verdict, or its head was lost."""
    if ref is None:
        return "the cluster is gone"
    if CONDEMNED in ref.annotations:
        return f"the last try condemned {ref}: {ref.annotations[CONDEMNED]}"
    passed = ref.annotations.get(VERIFIED_SESSION if flight.verify and stage is Stage.TRAIN else READY_SESSION)
    if stage is Stage.WAIT_READY or (stage is Stage.VERIFY and passed is None):
        return None
    if await _is_held(tools, flight, ref):  # its head may still answer, until its grace period is over
        return "Kueue has taken it away"
    try:
        _, session = await tools.backend.jobs(ref).version()
    except ApiUnreachable as error:
        return f"its dashboard does not answer ({error})"
    return None if session == passed else f"its Ray session changed from {passed} to {session}: the head was lost"


async def ensure(
    tools: Tools, flight: Flight, stage: Stage, *, try_number: int, deadline: datetime, last_try: bool
) -> Ensured:
    """Bring the flight to ``stage``: ready, or verified for VERIFY and TRAIN.

    A failure that another cluster may mend releases this one (collected first), unless it was the last try: then the
    teardown does it. Raises ClusterFailed, VerificationFailed, WaitTimedOut, ClusterGone.
    """
    ref = await usable_cluster(tools, flight, stage, try_number=try_number) or await _back_in_line(tools, flight)
    if ref is None:
        flight = flight.renewed(_BASE[stage] + try_number - 1)
        await _drop_older(tools, flight)
        ref = await provision(tools, flight)
    checks: tuple[Check, ...] = ()
    times: Mapping[str, float] = {}
    try:
        if stage is Stage.WAIT_READY or READY_SESSION not in ref.annotations:
            times = times_of(await wait_ready(tools, flight, ref, deadline=deadline))
        if stage is not Stage.WAIT_READY and flight.verify:
            checks = (await verify(tools, flight, ref, deadline=deadline)).checks
    except Diagnosed as error:
        if last_try or error.decision is Decision.FAIL:
            raise
        if await _is_held(tools, flight, ref):
            tools.say("Cluster %s keeps its place in the queue until the retry: it holds nothing", ref)
        else:
            tools.say("Releasing cluster %s before the retry: it must not hold GPUs meanwhile", ref)
            await collect(tools, flight)
            await tools.backend.delete(ref)
        raise
    return Ensured(ref=await require_cluster(tools, flight), checks=checks, times=times)


async def _is_held(tools: Tools, flight: Flight, ref: ClusterRef, *, or_was: bool = False) -> bool:
    """Whether Kueue holds this very cluster back (or has let it go on again after it took it away)."""
    if flight.cluster_spec.queue is None:
        return False
    seen = await tools.observe(ref, ray=False)
    if seen.cluster is None or seen.cluster.uid != ref.uid or seen.cluster.deleting_since is not None:
        return False
    own = [load for load in seen.workloads or () if load.owner == ref.uid]
    taken = or_was and any(load.evictions for load in own)
    return all(load.active for load in own) and (seen.cluster.suspended or taken)


async def _back_in_line(tools: Tools, flight: Flight) -> ClusterRef | None:
    """The cluster that Kueue took away and gives back: a new one would begin at the end of the queue."""
    ref = await current_cluster(tools, flight)
    if ref is None or CONDEMNED in ref.annotations or not await _is_held(tools, flight, ref, or_was=True):
        return None
    tools.say("Cluster %s was taken by Kueue and has kept its place in the queue: it is used again", ref)
    times = int(ref.annotations.get(TAKEN, "0")) + 1
    await tools.backend.annotate(ref, {READY_SESSION: None, VERIFIED_SESSION: None, TAKEN: str(times)})
    return await require_cluster(tools, flight)


async def _drop_older(tools: Tools, flight: Flight) -> None:
    """What this attempt had before: its GPUs are what the new cluster waits for. Collected first: nothing is lost."""
    found = await tools.backend.find(flight.namespace, flight.owner.flight_selector())
    older = [
        ref
        for ref in found
        if ref.owner and ref.owner.attempt == flight.owner.attempt and ref.owner.renewal < flight.owner.renewal
    ]
    if older:
        await collect(tools, flight)
    for ref in older:
        tools.say("Deleting the lost cluster %s", ref)
        await tools.backend.delete(ref)
