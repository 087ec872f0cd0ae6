"""Gang schedulers (Volcano, KAI, scheduler-plugins): all pods of a cluster at once, or none."""

from __future__ import annotations

from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Finding
from rayflight.snapshot.surroundings import Gang

_KAI_QUEUE = "kai.scheduler/queue"
_BURNING = 300.0  # seconds that a part of a gang may hold its GPUs for the rest
_REFUSED = ("NotEnoughResources", "Unschedulable")


def _unschedulable(case: Case) -> Iterable[Finding]:
    if case.cluster is None:
        return
    for gang in case.now.gangs or ():
        if gang.name not in (f"ray-{case.now.name}-pg", case.now.name) or gang.phase == "Running":
            continue
        said = [
            item
            for item in gang.conditions
            if item.status == "True" and (item.reason in _REFUSED or item.type in _REFUSED)
        ]
        if said:
            waiting = [pod for pod in case.pods if not pod.node]
            yield KINDS["gang-unschedulable"].finding(
                f"PodGroup {gang.name} of RayCluster {case.now.name} ({gang.minimum} pods at once, queue "
                f"{gang.queue or 'default'}) does not fit: {quoting.clip(said[-1].message, 300)}{_others(case, gang)}",
                objects=(f"podgroup/{gang.name}", *quoting.objects(waiting)),
                evidence=(quoting.condition(f"PodGroup {gang.name}", said[-1]),),
            )


def _others(case: Case, gang: Gang) -> str:
    held = [item.name for item in case.now.gangs or () if item.phase == "Running" and item.queue == gang.queue]
    return f"; the queue's capacity is held by PodGroup {quoting.listed(held)}" if held else ""


def _partly_placed(case: Case) -> Iterable[Finding]:
    """Some of a gang run, the rest cannot: the scheduler did not treat them as one."""
    cluster = case.cluster
    if cluster is None or not any(_KAI_QUEUE in pod.labels for pod in case.pods):
        return
    workers = [pod for pod in case.pods if pod.role == "worker"]
    waiting = [
        pod for pod in workers if not pod.node and (said := pod.condition("PodScheduled")) and said.status == "False"
    ]
    running = [pod for pod in workers if pod.phase == "Running"]
    said = waiting[0].condition("PodScheduled") if waiting else None
    if said and running and case.lasts(said.since, _BURNING):
        yield KINDS["gang-partly-placed"].finding(
            f"{len(running)} of {len(workers)} worker pods of RayCluster {cluster.name} run, and the other "
            f"{len(waiting)} "
            f"cannot be scheduled since {said.since}: the gang was not placed as one, and the first hold their GPUs "
            "for nothing",
            objects=quoting.objects(waiting),
            evidence=(quoting.condition(f"pod {waiting[0].name}", said),),
        )


RULES = (
    Rule(ids=("gang-unschedulable",), depth=Depth.ADMISSION, check=_unschedulable),
    Rule(ids=("gang-partly-placed",), depth=Depth.ADMISSION, check=_partly_placed),
)
