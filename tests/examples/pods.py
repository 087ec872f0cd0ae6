"""Volumes, containers, pods, and the network between them."""

from __future__ import annotations

from rayflight.snapshot.model import Claim, Condition, Event, Service
from rayflight.snapshot.surroundings import NetworkPolicy
from tests.examples.shape import Example, init_runs, second, show
from tests.made_up import (
    at,
    cluster,
    container,
    ended,
    event,
    head,
    ray,
    snapshot,
    with_container,
    worker,
)

HEAD = head(labels={"ray.io/node-type": "head"}, conditions=(Condition(type="Ready", status="True", since=at(0)),))
LATE = "2026-12-01T10:10:00.000Z"
BEFORE = {"previous": snapshot()}
OLD = {"previous": snapshot(pods=(head(name="flight-head-zzzzz", uid="old"), worker(1), worker(2)))}
EMPTY = NetworkPolicy(name="default-deny", selector={}, ingress=())


def about_claim(reason, message, count=5):
    return Event(kind="PersistentVolumeClaim", name="data", reason=reason, message=message, type="Warning", count=count)


def waiting(*says, pod=None, **changes):
    pod = pod or init_runs(2)
    return show(*says, pods=(HEAD, worker(1), pod), ray=ray(HEAD, worker(1)), **changes)


def told(reason, message, **changes):
    pod = worker(2, phase="Pending", conditions=())
    return show(pods=(head(), worker(1), pod), events=(event(reason, message, about=pod, count=5, **changes),))


MESHED = init_runs(
    2,
    containers=(
        container("istio-init", init=True, state="terminated"),
        *init_runs(2).containers,
        container("istio-proxy", state="waiting"),
    ),
)
KAI = {"kai.scheduler/queue": "q"}
UNPLACED = worker(
    2,
    phase="Pending",
    node="",
    ip="",
    scheduler="kai-scheduler",
    labels=KAI,
    conditions=(Condition(type="PodScheduled", status="False", reason="Unschedulable", message="gang", since=at(0)),),
)
FUSE = worker(
    2,
    phase="Pending",
    conditions=(),
    containers=(
        container("wait-gcs-ready", init=True, state="waiting"),
        container("ray-worker", gpus=1),
        container("gke-gcsfuse-sidecar"),
    ),
)

EXAMPLES: dict[str, Example] = {
    "claim-missing": show("data", pods=second(claims=("data",))),
    "claim-unbound": show(
        "Pending",
        pods=second(claims=("data",)),
        claims=(Claim(name="data", phase="Pending"),),
        events=(about_claim("ProvisioningFailed", 'storageclass "x" not found'),),
    ),
    "volume-not-mounted": told("FailedMount", "timed out waiting for the condition"),
    "sandbox-not-made": told("FailedCreatePodSandBox", "network: no plugin"),
    "secret-or-configmap-missing": told("Failed", 'Error: secret "hf" not found'),
    "container-out-of-memory": show(
        "nothing restarts it",
        pods=(
            head(),
            worker(1),
            with_container(
                worker(2, restart_policy="Never"),
                "ray-worker",
                state="terminated",
                terminated=ended(137, "OOMKilled"),
                ready=False,
            ),
        ),
    ),
    "liveness-probe-killed": show(
        "liveness",
        events=(event("Killing", "Container ray-worker failed liveness probe, will be restarted", about=worker(2)),),
    ),
    "init-waits-for-sidecar-volume": show(
        "gcsfuse",
        pods=(head(), worker(1), FUSE),
        events=(event("Failed", 'Error: failed to reserve container name "wait-gcs-ready_x"', about=FUSE),),
    ),
    "head-pod-lost": show("replaces", noted={**OLD, "session": "session_0"}),
    "head-container-restarted": show(
        "restarted in place",
        noted={"session": "session_0"},
        pods=(with_container(head(), "ray-head", restarts=1, last=ended(1)), worker(1), worker(2)),
    ),
    "worker-pod-lost": show("gpu-worker-2", pods=(head(), worker(1)), noted=BEFORE),
    "workers-scaled-down": show(
        "scaled down",
        pods=(head(), worker(1)),
        noted=BEFORE,
        events=(event("DeletedWorkerPod", "Deleted pod team-a/flight-gpu-worker-2", type="Normal"),),
    ),
    "cluster-gone": show("not there", cluster=None, pods=(), ray=None, noted=BEFORE),
    "finalizer-holds-deletion": Example(
        snapshot(
            cluster=cluster(deleting_since=at(0), finalizers=("ray.io/gcs-ft-redis-cleanup-finalizer",)),
            pods=(),
            ray=None,
            taken_at=LATE,
        ),
        ("redis-cleanup", "forces it"),
    ),
    "head-not-reachable": waiting("wait-gcs-ready", taken_at=LATE),
    "network-policy-blocks-head": waiting("default-deny", "6379", network_policies=(EMPTY,)),
    "mesh-blocks-init": waiting("istio-proxy", pod=MESHED),
    "head-name-not-resolved": waiting(
        "cannot resolve",
        logs={f"{init_runs(2).name}/wait-gcs-ready": "x.svc.cluster.local: Name or service not known"},
    ),
    "head-service-lacks-dashboard": show("6379", services=(Service(name="flight-head-svc", ports={"gcs": 6379}),)),
    "load-balancer-pending": show(
        "no address",
        taken_at=LATE,
        services=(Service(name="flight-head-svc", ports={"dashboard": 8265}, kind="LoadBalancer", created_at=at(0)),),
    ),
    "gang-partly-placed": show("1 of 2", pods=(head(), worker(1, labels=KAI), UNPLACED), taken_at=LATE),
}
