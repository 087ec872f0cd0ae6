"""Ray's own processes, nodes and versions."""

from __future__ import annotations

from dataclasses import replace

from rayflight.snapshot.model import Condition, PlacementGroup
from rayflight.states import JobStatus
from tests.examples.pods import waiting
from tests.examples.shape import PODS, Example, init_runs, running, show
from tests.made_up import (
    SESSION,
    at,
    cluster,
    container,
    ended,
    event,
    gap,
    head,
    job,
    ray,
    ray_node,
    with_container,
    worker,
)

LATE = "2026-12-01T10:10:00.000Z"
EXITED = "Some Ray subprocesses exited unexpectedly:\n  {} [exit code=-9]\n\nRemaining processes will be killed."
MISMATCH = (
    "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.9.3\n    Python: 3.10.13\n"
    "This process on node 10.0.0.1 was started with:\n    Ray: 2.9.3\n    Python: 3.10.12\n"
)
NEW_HEAD = head(
    conditions=(Condition(type="Ready", status="True", since=at(200)),),
    containers=(container("ray-head", started_at=at(190)),),
)
TWO = PlacementGroup(id="pg2", state="PENDING", ray_job="02000000", since=at(5), bundles=({"GPU": 1.0},) * 2)
PG = PlacementGroup(id="pg1", state="PENDING", ray_job="02000000", since=at(5), bundles=({"GPU": 1.0},) * 4)


def died(process, role):
    pod = with_container(head() if role == "head" else worker(2), f"ray-{role}", restarts=1, last=ended(1))
    pods = (pod, worker(1), worker(2)) if role == "head" else (head(), worker(1), pod)
    return show("exit code -9", pods=pods, logs={f"{pod.name}/ray-{role}/previous": EXITED.format(process)})


def client(line):
    return show(logs={"submitter": line})


EXAMPLES: dict[str, Example] = {
    "ray-version-mismatch": waiting(
        "only the patch level of Python differs (3.10.13 and 3.10.12",
        logs={f"{init_runs(2).name}/wait-gcs-ready": MISMATCH},
    ),
    "gcs-died": died("gcs_server", "head"),
    "ray-start-timed-out": show(
        "timed out during startup",
        pods=(with_container(head(), "ray-head", restarts=2, ready=False, last=ended(1)), worker(1), worker(2)),
        logs={f"{head().name}/ray-head/previous": "Exception: The current node timed out during startup. This could"},
        ray=None,
    ),
    "raylet-died": died("raylet", "worker"),
    "worker-container-restarted": show(
        "restarted in place",
        pods=(head(), worker(1), with_container(worker(2), "ray-worker", restarts=1, last=ended(1), started_at=at(41))),
        ray=replace(
            ray(*PODS),
            nodes=(*ray(*PODS).nodes, ray_node(worker(2), id="old", state="DEAD", ended_at=at(50), why="heartbeats")),
        ),
    ),
    "runtime-env-setting-up": show(
        "no demand waits",
        taken_at=LATE,
        ray=ray(*PODS, jobs=(job(JobStatus.PENDING, ray_job="", runtime_env=("pip",)),)),
    ),
    "gcs-unhealthy": show("its GCS does not", ray=ray(*PODS, gcs_healthy=False)),
    "driver-node-dead": show(
        "in Ray's words only",
        ray=replace(
            ray(*PODS, jobs=(job(driver_node_id="old"),)),
            nodes=(*ray(*PODS).nodes, ray_node(head(), id="old", state="DEAD", ended_at=at(40), why="gone")),
        ),
    ),
    "zombie-workers": show(
        "hold 2 GPUs",
        pods=(NEW_HEAD, worker(1), worker(2)),
        ray=ray(NEW_HEAD),
        cluster=cluster(fault_tolerant=True),
        taken_at=LATE,
    ),
    "ray-node-dead": show(
        "died at",
        ray=replace(
            ray(*PODS),
            nodes=(
                *ray(head(), worker(1)).nodes,
                ray_node(worker(2), state="DEAD", ended_at=at(40), why="Raylet could not connect to Runtime Env Agent"),
            ),
        ),
    ),
    "ray-session-changed": show("lost, not running", ray=ray(*PODS, session="session_2"), noted={"session": SESSION}),
    "ray-disk-full": show(
        "95% full", logs={"flight-head-aaaaa/raylet": "/tmp/ray is over 95% full, available space: 5031063552"}
    ),
    "object-store-on-disk": show(
        logs={"flight-head-aaaaa/ray-head": "The object store is using /tmp instead of /dev/shm because"}
    ),
    "head-agent-down": client("aiohttp: Connect call failed ('10.244.3.9', 52365)"),
    "dashboard-not-listening": client("ConnectionError: Failed to connect to Ray at address: http://x-head-svc:8265."),
    "dashboard-token-refused": show(ray=None, gaps=gap("ray", "401 Unauthorized: Missing authentication token")),
    "head-overloaded": show(
        "749 times", events=(event("Unhealthy", "Readiness probe failed: ", about=head(), count=749),)
    ),
    "job-cannot-finish": show("4 GPU", ray=ray(*PODS, jobs=(job(),), placement_groups=(PG,))),
    "gcs-store-unreachable": show(
        "Unable to connect to Redis at redis:6379",
        pods=(with_container(head(), "ray-head", ready=False, restarts=3, last=ended(1)), worker(1), worker(2)),
        logs={"flight-head-aaaaa/ray-head/previous": "RuntimeError: Unable to connect to Redis at redis:6379. Check"},
    ),
    "job-waits-for-other-jobs": show(
        "held by submission old (2)",
        taken_at=LATE,
        ray=ray(
            *PODS,
            jobs=(job(id="old", ray_job="01", started_at=at(1)), job()),
            placement_groups=(replace(TWO, id="a", state="CREATED", ray_job="01"), TWO),
        ),
    ),
    "job-waits-for-pods": show(
        "waits for 4 GPU",
        pods=(head(), worker(1)),
        ray=ray(head(), worker(1), jobs=(job(),), placement_groups=(PG,)),
    ),
    "no-node-type-fits": show(
        "{'GPU': 8.0}",
        cluster=cluster(autoscaling=True),
        **running(log="(autoscaler +5s) Error: No available node types can fulfill resource request {'GPU': 8.0}."),
    ),
    "runtime-env-hangs": show(
        "pip",
        taken_at=LATE,
        ray=ray(*PODS, jobs=(job(JobStatus.PENDING, ray_job="", runtime_env=("pip",)),)),
        logs={
            "runtime_env_setup-1": "WARNING: Retrying (Retry(total=4)): Failed to establish a new connection: pypi.org"
        },
    ),
}
