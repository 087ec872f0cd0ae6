"""Kueue and gangs, with the texts of Kueue 0.17 as it printed them."""

from __future__ import annotations

from rayflight.snapshot.model import Condition
from rayflight.snapshot.surroundings import AdmissionCheck, Gang, Queue, Workload
from tests.examples.shape import Example, show
from tests.made_up import SESSION, UID, at, cluster, event, head, pending, ray, worker

LABEL = {"kueue.x-k8s.io/queue-name": "gpu"}
LATE = "2026-12-01T10:10:00.000Z"
HELD = "couldn't assign flavors to pod set gpu: "
FEW = f"{HELD}insufficient unused quota for nvidia.com/gpu in flavor default-flavor, 2 more needed"
NEVER = (
    f"{HELD}insufficient quota for nvidia.com/gpu in flavor default-flavor, previously considered podsets requests "
    "(0) + "
    "current podset request (3) > maximum capacity (2)"
)


def load(*conditions, **changes):
    return Workload(
        name="raycluster-flight-1a2b3",
        owner=UID,
        owner_kind="RayCluster",
        queue="gpu",
        conditions=conditions,
        **changes,
    )


def reserved(message, reason="Pending"):
    return Condition(type="QuotaReserved", status="False", reason=reason, message=message, since=at(5))


def evicted(reason, message="because"):
    return Condition(type="Evicted", status="True", reason=reason, message=message, since=at(30))


def queued(*conditions, says=(), queues=None, others=(), noted=None, **changes):
    mine = load(*conditions, **changes)
    return show(
        *says,
        cluster=cluster(suspended=True, labels=LABEL),
        pods=(),
        ray=None,
        workloads=(mine, *others),
        queues=queues,
        noted=noted,
    )


def inactive(kind, name, reason, message):
    return (
        Queue(
            kind=kind, name=name, conditions=(Condition(type="Active", status="False", reason=reason, message=message),)
        ),
    )


def stopped(message):
    return show(
        cluster=cluster(suspended=True, labels=LABEL),
        pods=(),
        ray=None,
        events=(event("Stopped", message, type="Normal"),),
    )


HOLDER = Workload(
    name="other", owner="x", owner_name="ray-a", conditions=(Condition(type="QuotaReserved", status="True"),)
)
STUCK = Workload(name="gone", owner="y", deleting_since=at(0), finalizers=("kueue.x-k8s.io/resource-in-use",))
PODGROUP = Gang(
    name="ray-flight-pg",
    phase="Inqueue",
    minimum=3,
    queue="q",
    conditions=(
        Condition(
            type="Unschedulable", status="True", reason="NotEnoughResources", message="3/3 tasks in gang unschedulable"
        ),
    ),
)

CHECK = AdmissionCheck(name="dws", state="Pending", message="waits for resources", since=at(6))
RESERVED = Condition(type="QuotaReserved", status="True", reason="QuotaReserved", since=at(5))

EXAMPLES: dict[str, Example] = {
    "kueue-admission-check": queued(RESERVED, says=("dws (Pending): waits for resources",), checks=(CHECK,)),
    "suspended-by-hand": show(cluster=cluster(suspended=True), pods=(), ray=None),
    "queued-by-kueue": show("queue gpu", cluster=cluster(suspended=True, labels=LABEL), pods=(), ray=None),
    "pods-gated": show(
        "kueue", pods=(head(), worker(1), pending(2, conditions=(), scheduling_gates=("kueue.x-k8s.io/admission",)))
    ),
    "gang-unschedulable": show(
        "3 pods at once",
        "held by PodGroup other",
        pods=(),
        ray=None,
        gangs=(PODGROUP, Gang(name="other", phase="Running", queue="q")),
    ),
    "kueue-waits-for-quota": queued(reserved(FEW), says=("2 more needed", "ray-a"), others=(HOLDER,)),
    "kueue-never-fits": queued(reserved(NEVER), says=("maximum capacity (2)",)),
    "kueue-no-flavor-matches": queued(
        reserved(
            f"{HELD}flavor big doesn't match node affinity, untolerated taint {{x y NoSchedule <nil>}} in flavor old"
        ),
        says=("flavor big",),
    ),
    "kueue-resource-not-in-queue": queued(reserved(f"{HELD}resource example.com/foo unavailable in ClusterQueue")),
    "kueue-local-queue-missing": queued(reserved("LocalQueue nosuch doesn't exist", "Inadmissible")),
    "kueue-cluster-queue-missing": queued(reserved("ClusterQueue no-such-cq doesn't exist", "Inadmissible")),
    "kueue-cluster-queue-held": queued(
        reserved("ClusterQueue cq3-held is inactive", "Inadmissible"),
        says=("is stopped",),
        queues=inactive("ClusterQueue", "cq3-held", "Stopped", "Can't admit new workloads: is stopped."),
    ),
    "kueue-flavor-missing": queued(
        reserved("ClusterQueue cq3-noflavor is inactive", "Inadmissible"),
        says=("no-such-flavor",),
        queues=inactive(
            "ClusterQueue", "cq3-noflavor", "FlavorNotFound", "references missing ResourceFlavor(s): no-such-flavor."
        ),
    ),
    "kueue-cluster-queue-inactive": queued(reserved("ClusterQueue cq is inactive", "Inadmissible")),
    "kueue-local-queue-held": queued(reserved("LocalQueue lqheld is inactive", "Inadmissible")),
    "kueue-namespace-not-selected": queued(reserved("Workload namespace doesn't match ClusterQueue selector")),
    "kueue-preempted": show(
        "not at fault",
        workloads=(
            load(
                Condition(
                    type="Preempted",
                    status="False",
                    reason="QuotaReserved",
                    since=at(40),
                    message="Previously: Preempted to accommodate a workload",
                ),
                evictions={"Preempted": 1},
            ),
        ),
        cluster=cluster(labels=LABEL),
        ray=ray(head(), worker(1), worker(2), session="session_2"),
        noted={"session": SESSION},
    ),
    "kueue-pods-ready-timeout": queued(
        evicted("PodsReadyTimeout"), says=("2 time-out",), requeue_count=2, requeue_at=at(50)
    ),
    "kueue-deactivated": queued(evicted("DeactivatedDueToRequeuingLimitExceeded"), active=False),
    "kueue-queue-drained": queued(evicted("ClusterQueueStopped")),
    "kueue-evicted": queued(evicted("AdmissionCheck")),
    "kueue-down": queued(reserved(FEW), others=(STUCK,)),
    "kueue-no-workload": show(
        "nosuchclass",
        cluster=cluster(suspended=True, labels={**LABEL, "kueue.x-k8s.io/priority-class": "nosuchclass"}),
        pods=(),
        ray=None,
        workloads=(),
        taken_at=LATE,
    ),
    "kueue-suspends-again": stopped("Not admitted by cluster queue"),
    "kueue-webhooks-missing": stopped("Missing Workload; unable to restore pod templates"),
}
