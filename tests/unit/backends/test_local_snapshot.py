"""Process trees seen as pods: readiness and diagnosis judge them by the same rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rayflight.backends import local_pods
from rayflight.backends.local_plan import as_dict, trees
from rayflight.diagnosis import diagnose
from rayflight.manifests import build
from rayflight.snapshot.assemble import assemble
from rayflight.snapshot.model import Gap, Ray, RayNode, Snapshot
from rayflight.snapshot.readiness import readiness
from rayflight.specs import load_cluster
from tests.world import OWNER

AT = "2026-12-01T10:00:00.000Z"
CLUSTER = build(load_cluster("testbed-2x1"), OWNER, "default")
CLUSTER["metadata"] |= {"uid": "u-1", "generation": 1, "creationTimestamp": AT}
TREES = [as_dict(tree, {}) for tree in trees(CLUSTER, "/tmp/rf-1", shared_memory=None)]
HEAD, FIRST, SECOND = (tree["name"] for tree in TREES)
UP: dict[str, Any] = {
    "created_at": AT, "state": "running", "reason": "", "message": "", "started_at": AT, "restarts": 0,
    "last_exit": None, "last_ended_at": None, "devices": [],
}  # fmt: skip
NEW = {**UP, "state": "waiting", "started_at": None}


def node(pod: str, **changes: Any) -> RayNode:
    gpus = {} if pod == HEAD else {"GPU": 1.0}
    return replace(RayNode(id=f"id-{pod}", ip="127.0.0.1", state="ALIVE", pod=pod, resources=gpus), **changes)


RAY = Ray(session="session_1", version="2.60.0", gcs_healthy=True, nodes=(node(HEAD), node(FIRST), node(SECOND)))


def seen(ray: Ray | None = RAY, **states: dict[str, Any]) -> Snapshot:
    every = {HEAD: UP, FIRST: UP, SECOND: UP} | {globals()[name]: state for name, state in states.items()}
    raw = {
        "rayclusters": {"items": [local_pods.with_status(CLUSTER)]},
        "pods": {"items": local_pods.pods(CLUSTER, TREES, every, "laptop")},
    }
    gaps = () if ray else (Gap(source="ray", why="the head does not run (yet)"),)
    made = assemble(raw, namespace="default", name=CLUSTER["metadata"]["name"], taken_at=AT)
    return replace(made, ray=ray, gaps=gaps, backend="local")


def test_trees_that_are_alive_in_ray_are_ready():
    found = readiness(seen())
    assert (found.ready, found.waiting_for, found.session) == (True, "", "session_1")
    assert found.mapped[FIRST] == f"id-{FIRST}"
    assert diagnose(seen()).verdict == "healthy"


def test_ray_nodes_of_one_address_are_told_apart_by_name():
    twins = replace(RAY, nodes=(node(HEAD), *(replace(node(name), pod="") for name in (FIRST, SECOND))))
    assert f"pod {FIRST} runs, but is not ALIVE" in readiness(seen(twins)).waiting_for


def test_a_tree_that_was_not_started_yet_is_being_created():
    snapshot = seen(None, SECOND=NEW)
    assert "containers are being created" in readiness(snapshot).waiting_for
    assert [pod.containers[0].ready for pod in snapshot.pods] == [True, True, False]


def test_a_tree_that_waits_for_gpus_is_unschedulable():
    waiting = {**NEW, "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient GPUs"}
    snapshot = seen(None, SECOND=waiting)
    assert "Insufficient GPUs" in readiness(snapshot).waiting_for
    pod = next(pod for pod in snapshot.pods if pod.name == SECOND)
    assert (pod.phase, pod.node) == ("Pending", "")


def test_a_head_that_was_started_again_lost_its_session():
    again = {**UP, "restarts": 1, "last_exit": 1, "last_ended_at": AT}
    found = diagnose(seen(replace(RAY, session="session_2"), HEAD=again), submission="rf-1", session="session_1")
    assert found.cause is not None
    assert found.cause.id == "head-container-restarted"
    assert "exit code 1" in found.cause.summary


def test_a_tree_that_keeps_ending_is_a_crash_loop():
    looping = {
        **UP,
        "state": "waiting",
        "reason": "CrashLoopBackOff",
        "restarts": 4,
        "last_exit": 2,
        "last_ended_at": AT,
    }
    assert "keeps ending with exit code 2" in readiness(seen(None, HEAD=looping)).waiting_for


def test_what_has_no_meaning_here_is_not_missing():
    assert not Gap(source="nodes", why="not applicable: local backend").applies
    assert Gap(source="nodes", why="not allowed to list nodes").applies
