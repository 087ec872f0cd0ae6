"""``on_fail: replace``: worker pods that failed a verification make room for others, and bad nodes are avoided.

What was replaced stands on the cluster (annotation ``replaced-pods``): a restart neither forgets nor repeats it.
Existing pods ignore changes of the spec: a node is avoided by the run's next cluster, whose pods are told its name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from rayflight.backends.base import ClusterRef
from rayflight.errors import ApiUnreachable, PermissionMissing, WaitTimedOut
from rayflight.findings import Check, Diagnosis
from rayflight.labels import REPLACED
from rayflight.lifecycle.flight import Flight, Tools, current_cluster
from rayflight.lifecycle.ready import wait_ready
from rayflight.snapshot.model import Pod, Snapshot
from rayflight.snapshot.readiness import map_pods
from rayflight.verification import bad_nodes, blocking, failing_pods

_POLL = 1.0  # seconds; only Ray's own state has no watch


async def replace_failing(
    tools: Tools, flight: Flight, ref: ClusterRef, snapshot: Snapshot, checks: Sequence[Check], *, deadline: datetime
) -> bool:
    """Delete the failing worker pods and wait until others stand in their place. False: that cannot mend it.

    Raises WaitTimedOut, or ClusterFailed when no other pod can come.
    """
    names = failing_pods(checks, [pod.name for pod in snapshot.workers()])
    pods = [pod for pod in snapshot.workers() if pod.name in names]
    current = await current_cluster(tools, flight) or ref
    done = current.annotations.get(REPLACED, "").split()
    most = flight.cluster_spec.verification.replacements
    if not pods or len(done) + len(pods) > most:
        tools.say("Nothing is replaced: %s", _why_not(pods, done, most))
        return False
    for pod in pods:
        rows = [check for check in blocking(checks) if check.facts.get("pod") == pod.name]
        why = "; ".join(f"{row.id}: {row.observed}" for row in rows)
        tools.say("Replacing pod %s on node %s (uid %s): %s", pod.name, pod.node, pod.uid, why)
        done = [*done, pod.name]
        await tools.backend.annotate(ref, {REPLACED: " ".join(done)})
        try:
            await tools.backend.replace_pod(ref, pod.name, pod.uid)
        except PermissionMissing as error:
            tools.say("Nothing is replaced: %s", error)
            return False
        await tools.archive.write_json(
            f"{flight.folder}/{ref.name}/replaced-{pod.name}.json",
            {"pod": pod.name, "node": pod.node, "uid": pod.uid, "checks": [asdict(row) for row in rows]},
        )
    await _gone(tools, ref, snapshot, pods, deadline)
    await wait_ready(tools, flight, ref, deadline=deadline)
    return True


def _why_not(pods: Sequence[Pod], done: Sequence[str], most: int) -> str:
    if not pods:
        return "what failed is not one worker pod's, or no other pod would mend it"
    names = ", ".join(pod.name for pod in pods)
    spent = f"{', '.join(done)} {'was' if len(done) == 1 else 'were'} replaced already" if done else "none was yet"
    return f"{names} failed, at most {most} worker pods of a cluster are replaced, and {spent}"


async def _gone(tools: Tools, ref: ClusterRef, before: Snapshot, pods: Sequence[Pod], deadline: datetime) -> None:
    """Until Kubernetes and Ray both let go of them: a picture in which they still stand would look ready."""
    mapped = map_pods(before).candidates
    nodes = {node.id for pod in pods for node in mapped.get(pod.name, ())}
    uids = {pod.uid for pod in pods} if before.backend == "kubernetes" else set()  # a local tree keeps its name
    async for _ in tools.backend.changes(ref, at_least_every=_POLL):
        try:
            seen = await tools.observe(ref)
        except ApiUnreachable as error:
            tools.say("The replaced pods are still awaited: %s", error)
        else:
            there = {pod.uid for pod in seen.pods if pod.deleting_since is None} & uids
            alive = {node.id for node in seen.ray.alive()} & nodes if seen.ray else nodes
            if not there and not alive:
                return
        if tools.now() >= deadline:
            break
    names = ", ".join(pod.name for pod in pods)
    raise WaitTimedOut(
        "Pods that were deleted did not go in time",
        which=f"{names} of {ref}",
        diagnosis=Diagnosis(verdict="unknown", facts=(f"still waiting for {names} to go",)),
    )


async def nodes_to_avoid(tools: Tools, flight: Flight) -> tuple[str, ...]:
    """Kubernetes nodes that failed a verification of this flight before, and were not mended by another pod there.

    Read from the flight's own archive: advice for the scheduler, never a statement of what exists (decision 21).
    """
    if flight.when_unverified != "replace" or tools.backend.name != "kubernetes":
        return ()
    found: list[str] = []
    for attempt in await tools.archive.names(""):
        for cluster in await tools.archive.names(attempt) if attempt.startswith("attempt-") else ():
            data = await tools.archive.read(f"{attempt}/{cluster}/verification.json")
            rows = [Check(**row) for row in json.loads(data)["checks"]] if data else []
            found += bad_nodes(rows)
    return tuple(dict.fromkeys(found))
