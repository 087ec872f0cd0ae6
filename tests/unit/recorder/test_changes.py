"""Every kind of change gives one line in words; what did not change, or could not be read, gives none."""

import random
from dataclasses import replace
from typing import Any

import pytest

from rayflight.labels import READY_SESSION
from rayflight.recorder import changes
from rayflight.recorder.compare import compare
from rayflight.snapshot.model import Claim, Condition, Gap, PlacementGroup, Quota, Service, Snapshot, Taint
from rayflight.snapshot.surroundings import Workload
from rayflight.states import JobStatus
from tests.made_up import (
    GPU,
    NODES,
    READY,
    UID,
    at,
    cluster,
    ended,
    event,
    head,
    job,
    node,
    pending,
    ray,
    ray_node,
    snapshot,
    with_container,
    worker,
)

PODS = (head(), worker(1), worker(2))
BAD_NODE = node("gpu-1", 4, conditions=(replace(READY, status="Unknown", reason="NodeStatusUnknown", since=at(50)),))
CRASHED = with_container(
    worker(1), "ray-worker", state="waiting", reason="CrashLoopBackOff", restarts=2, last=ended(137, "OOMKilled")
)
HEAD_READY = Condition(type="HeadPodReady", status="True", reason="HeadPodRunningAndReady", since=at(9))
NOT_BOUND = Quota(name="gpus", hard={GPU: "8"}, used={GPU: "2"})
GROUP = PlacementGroup(id="abcdef0123456789", state="PENDING", bundles=({"GPU": 1.0}, {"GPU": 1.0}))
WAITS = Workload(name="raycluster-flight", owner=UID, queue="team")
MOUNTS = worker(1, claims=("data",))

TOLD: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"pods": PODS[:2]}, {"pods": PODS}, ["pod flight-gpu-worker-2 appears: Running (node gpu-2)",
      "pod flight-gpu-worker-2, Ready: True", "pod flight-gpu-worker-2, container ray-worker: running",
      "node gpu-2 is in use: Ready (taint nvidia.com/gpu present:NoSchedule; allocatable nvidia.com/gpu 4)"]),
    ({"pods": PODS}, {"pods": PODS[:2]}, ["pod flight-gpu-worker-2 is gone (was Running)"]),
    ({"pods": (pending(1),)}, {"pods": (replace(pending(1), phase="Failed", reason="Evicted", message="disk"),)},
     ["pod flight-gpu-worker-1: Pending → Failed: Evicted: disk"]),
    ({"pods": (worker(1),)}, {"pods": (worker(1, deleting_since=at(55)),)},
     ["pod flight-gpu-worker-1: Running → Running, being deleted"]),
    ({"pods": (worker(1),)}, {"pods": (CRASHED,)},
     ["pod flight-gpu-worker-1, container ray-worker, restarts: 2, before that ended with exit code 137 OOMKilled",
      "pod flight-gpu-worker-1, container ray-worker: running → waiting: CrashLoopBackOff"]),
    ({}, {"cluster": cluster(conditions=(HEAD_READY,))},
     ["RayCluster flight, HeadPodReady: True HeadPodRunningAndReady"]),
    ({}, {"cluster": cluster(annotations={READY_SESSION: "session_1"})},
     ["RayCluster flight, ready in session: session_1"]),
    ({}, {"cluster": cluster(deleting_since=at(58))},
     ["RayCluster flight: there (uid cluster-uid) → being deleted (uid cluster-uid)"]),
    ({}, {"cluster": None}, ["RayCluster flight is gone (was there (uid cluster-uid))"]),
    ({}, {"cluster": cluster(workers=3)}, ["RayCluster flight, desired pods: 3 → 4"]),
    ({}, {"nodes": (NODES[0], BAD_NODE, NODES[2])}, ["node gpu-1: Ready → not Ready (NodeStatusUnknown: )"]),
    ({}, {"nodes": (NODES[0], NODES[2])}, ["node gpu-1 is gone (was Ready)"]),
    ({}, {"nodes": (NODES[0], node("gpu-1", 3), NODES[2])}, ["node gpu-1, allocatable nvidia.com/gpu: 4 → 3"]),
    ({}, {"nodes": (*NODES[:2], node("gpu-2", 4, taints=(Taint(key="bad", value="xid", effect="NoExecute"),)))},
     ["node gpu-2, taint bad: xid:NoExecute",
      "node gpu-2, taint nvidia.com/gpu: no longer present:NoSchedule"]),
    ({}, {"events": (event("BackOff", "Back-off restarting", about=worker(1), count=3),)},
     ["Pod flight-gpu-worker-1: Warning BackOff: Back-off restarting ×3"]),
    ({}, {"services": (Service(name="flight-head-svc", ports={"client": 10001}),)},
     ["service flight-head-svc appears: ports client 10001"]),
    ({"quotas": (NOT_BOUND,)}, {"quotas": (replace(NOT_BOUND, used={GPU: "8"}),)},
     ["quota gpus, nvidia.com/gpu: 2 of 8 used → 8 of 8 used"]),
    ({"pods": (MOUNTS,), "claims": (Claim(name="data", phase="Pending"),)},
     {"pods": (MOUNTS,), "claims": (Claim(name="data", phase="Bound", volume="pv-1"),)},
     ["volume claim data: Pending → Bound to pv-1"]),
    ({"workloads": (WAITS,)},
     {"workloads": (replace(WAITS, conditions=(Condition(type="Admitted", status="True", reason="Admitted"),)),)},
     ["Workload raycluster-flight, Admitted: True Admitted"]),
    ({}, {"ray": ray(*PODS, session="session_2")}, ["session: session_1 → session_2"]),
    ({}, {"ray": ray(*PODS[:2], nodes=(*map(ray_node, PODS[:2]), ray_node(PODS[2], state="DEAD", why="raylet died")))},
     ["Ray node ray-work (10.0.1.2): ALIVE → DEAD (raylet died)"]),
    ({"ray": ray()}, {"ray": ray(PODS[0], nodes=(ray_node(PODS[0], pod="flight-head"),))},
     ["Ray node ray-head (10.0.0.1, head) appears: ALIVE (pod flight-head)"]),
    ({"ray": ray(PODS[0])}, {"ray": ray(PODS[0], nodes=(ray_node(PODS[0], pod="flight-head"),))},
     ["Ray node ray-head (10.0.0.1, head), pod: flight-head"]),
    ({}, {"ray": ray(*PODS, jobs=(job(),))}, ["submission train-1 appears: RUNNING"]),
    ({"ray": ray(*PODS, jobs=(job(),))},
     {"ray": ray(*PODS, jobs=(job(JobStatus.FAILED, driver_exit_code=7, message="failed"),))},
     ["submission train-1: RUNNING → FAILED, driver's exit code 7 (failed)"]),
    ({}, {"ray": ray(*PODS, placement_groups=(GROUP,))}, ["placement group abcdef01 appears: PENDING, 2 bundles"]),
    ({}, {"ray": ray(*PODS, pending_demands=("{'GPU': 9}: 1 pending",))}, ["demand waits: {'GPU': 9}: 1 pending"]),
    ({}, {"ray": ray(*PODS, gcs_healthy=False)}, ["GCS: healthy → unhealthy"]),
    ({}, {"ray": None, "gaps": (Gap(source="ray", why="timed out"),)},
     ["dashboard: answers → does not answer (timed out)"]),
    ({}, {"quotas": (), "gaps": (Gap(source="quotas", why="forbidden"),)}, ["quotas cannot be read: forbidden"]),
    ({}, {"relists": {"pods": 1}}, ["the watch of pods expired: what came and went before the new list is not known"]),
    ({"relists": {"pods": 1}}, {}, []),
    ({"gaps": (Gap(source="quotas", why="forbidden"),)}, {}, ["quotas can be read again"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "told"), TOLD, ids=lambda item: item[0] if isinstance(item, list) and item else ""
)
def test_each_change_is_told_in_words(first: dict[str, Any], second: dict[str, Any], told: list[str]):
    side = ray(*PODS)  # the same on both, unless the case says otherwise
    before, after = snapshot(**{"ray": side, **first}), snapshot(**{"ray": side, **second})
    assert sorted(change.text for change in changes(before, after)) == sorted(told)


def test_nothing_is_told_where_nothing_changed():
    assert changes(snapshot(), replace(snapshot(), taken_at=at(90))) == ()


@pytest.mark.parametrize("source", ["cluster", "pods", "nodes", "services", "quotas", "claims", "events"])
def test_what_cannot_be_read_has_not_changed(source: str):
    full = snapshot(
        services=(Service(name="s"),), quotas=(NOT_BOUND,), claims=(Claim(name="data"),), pods=(*PODS[:2], MOUNTS)
    )
    nothing = None if source == "cluster" else ()
    blind = replace(full, **{source: nothing}, gaps=(Gap(source=source, why="forbidden"),))  # type: ignore[arg-type]
    known, found = compare(compare({}, full)[0], blind)
    assert [change.text for change in found] == [f"{source} cannot be read: forbidden"]
    assert [change.text for change in compare(known, full)[1]] == [f"{source} can be read again"]


def test_a_look_that_did_not_ask_ray_says_nothing_of_ray():
    unasked = snapshot(ray=None, gaps=(Gap(source="ray", why="not asked for this time"),))
    assert changes(snapshot(), unasked) == ()


def test_a_pod_that_is_born_is_told_at_its_own_time():
    found = changes(snapshot(pods=()), snapshot(pods=(pending(1),), ray=snapshot(pods=()).ray))
    assert [(change.when, change.at) for change in found if not change.key.aspect] == [
        (pending(1).created_at, snapshot().taken_at)
    ]


def test_all_changes_explain_the_last_look():
    """Whatever happens between, the changes added up are the phases, nodes and Ray nodes that are there at the end."""
    looks = _many_looks()
    shown: dict[str, str] = {}
    before: Snapshot | None = None
    for look in looks:
        for change in changes(before, look):
            if change.key.kind == "pod" and not change.key.aspect:
                shown[change.key.name] = change.after or ""
        before = look
        assert {name: phase for name, phase in shown.items() if phase} == {
            pod.name: f"{pod.phase}{', being deleted' if pod.deleting_since else ''}" for pod in look.pods
        }


def _many_looks() -> list[Snapshot]:
    chance = random.Random(7)
    looks = []
    for number in range(200):
        pods = [
            chance.choice(
                [pending(each), worker(each), worker(each, phase="Failed"), worker(each, deleting_since=at(1))]
            )
            for each in range(6)
            if chance.random() < 0.7
        ]
        looks.append(replace(snapshot(pods=tuple(pods)), taken_at=at(number)))
    return looks
