"""A rule falls silent when its deciding fact is missing, stale, or somebody else's."""

from dataclasses import replace

import pytest

from rayflight.diagnosis import diagnose
from rayflight.findings import Decision
from rayflight.snapshot.model import Claim, Condition, PlacementGroup
from rayflight.states import JobStatus
from tests.made_up import (
    GPU,
    NODES,
    SESSION,
    at,
    cluster,
    event,
    foreign,
    gap,
    head,
    job,
    pending,
    ray,
    ray_node,
    snapshot,
    worker,
)
from tests.unit.diagnosis.asking import found, ids

PODS = (head(), worker(1), worker(2))
OLD_HEAD = head(name="flight-head-zzzzz", uid="old-head")
DELETED = event("DeletedHeadPod", "Deleted head Pod team-a/flight-head-zzzzz", type="Normal", last_at=at(5))
OLD_KILL = event("Killing", "Stopping container ray-head", about=OLD_HEAD, type="Normal", last_at=at(5))
TWO = PlacementGroup(id="pg", state="PENDING", ray_job="02000000", since=at(50), bundles=({"GPU": 1.0}, {"GPU": 1.0}))
NOTED = {"session": SESSION, "submission": "train-1"}


def test_a_head_replaced_before_this_session_began_is_history():
    seen = snapshot(events=(OLD_KILL, DELETED), ray=ray(*PODS, jobs=(job(),)))
    assert ids(seen, **NOTED) == []


@pytest.mark.parametrize("told", [DELETED, OLD_KILL])
def test_while_the_dashboard_is_silent_the_event_tells_that_the_head_is_gone(told):
    seen = snapshot(events=(told,), ray=None, gaps=gap("ray"))
    assert found(seen, **NOTED)["head-pod-lost"].decision is Decision.RETRY_ELSEWHERE


def test_a_container_that_is_killed_in_a_living_pod_is_no_lost_pod():
    told = (event("Killing", "restarting", about=head()), event("Killing", "restarting", about=worker(1)))
    assert ids(snapshot(events=told, ray=None, gaps=gap("ray"))) == []


def test_pods_that_cannot_be_read_are_not_gone():
    before = snapshot(ray=ray(*PODS, jobs=(job(),)))
    assert ids(snapshot(pods=(), ray=None, gaps=gap("pods")), previous=before) == []


def test_a_cluster_that_is_being_deleted_has_no_other_fault():
    down = (replace(NODES[0], conditions=()), *NODES[1:])
    gone = worker(2, phase="Failed", reason="Evicted", message="memory")
    seen = snapshot(cluster=cluster(deleting_since=at(50)), nodes=down, pods=(head(), worker(1), gone))
    assert ids(seen) == ["cluster-gone"]


def test_a_refused_pod_is_no_sign_of_a_standing_operator():
    failure = Condition(type="ReplicaFailure", status="True", message="exceeded quota")
    killed = event("Killing", "Stopping container", about=worker(2), type="Normal", last_at=at(40))
    seen = snapshot(cluster=cluster(conditions=(failure,)), pods=(head(), worker(1)), events=(killed,))
    assert "operator-standing-still" not in ids(seen)
    assert "operator-standing-still" in ids(replace(seen, cluster=cluster()))


def test_a_long_name_that_the_operator_accepted_is_no_fault():
    name = "x" * 54
    made = cluster(name=name, observed_generation=0)
    assert "cluster-spec-invalid" not in ids(replace(snapshot(cluster=made), name=name))


@pytest.mark.parametrize(
    "claim", [Claim(name="data", phase="Bound"), Claim(name="data"), Claim(name="others", phase="Lost")]
)
def test_a_claim_that_is_bound_or_not_ours_is_no_fault(claim):
    pods = (head(), worker(1), worker(2, claims=("data",) if claim.name == "data" else ()))
    told = event("ProvisioningFailed", "no", kind="PersistentVolumeClaim", name=claim.name, uid="", count=9)
    assert ids(snapshot(pods=pods, claims=(claim,), events=(told,))) == []


def test_an_event_about_something_else_does_not_explain_a_claim():
    pods = (head(), worker(1), worker(2, claims=("data",)))
    told = event("ProvisioningFailed", "no", about=worker(2), name="data", count=9)
    assert ids(snapshot(pods=pods, claims=(Claim(name="data", phase="Pending"),), events=(told,))) == []


def test_a_mount_that_failed_before_the_pod_ran_is_history():
    told = event("FailedMount", "timed out", about=worker(2), count=9)
    assert ids(snapshot(events=(told,))) == []


def test_an_invalid_class_needs_both_words():
    pods = (head(), worker(1), worker(2, claims=("data",)))
    told = event("ProvisioningFailed", "secret not found", kind="PersistentVolumeClaim", name="data", uid="")
    seen = snapshot(pods=pods, claims=(Claim(name="data", phase="Pending"),), events=(told,))
    assert found(seen)["claim-unbound"].decision is Decision.WAIT


def test_a_running_pod_with_a_nodes_reason_was_not_refused():
    assert ids(snapshot(pods=(head(), worker(1), worker(2, reason="OutOfcpu")))) == []


def test_a_bound_pod_with_an_old_condition_is_not_unschedulable():
    assert ids(snapshot(pods=(head(), worker(1), pending(2, node="gpu-2", phase="Running", ip="10.0.1.2")))) == []


def test_holders_are_not_named_from_pods_that_cannot_be_read():
    key = f"requests.{GPU}"
    text = f"exceeded quota: q, requested: {key}=1, used: {key}=8, limited: {key}=8"
    failure = Condition(type="ReplicaFailure", status="True", message=text)
    seen = snapshot(cluster=cluster(conditions=(failure,)), pods=(head(), worker(1)), gaps=gap("foreign_pods"))
    stale = replace(seen, foreign_pods=(replace(foreign("busy", "gpu-1", 7), namespace="team-a"),))
    assert "busy" not in found(stale)["quota-used-up"].summary


def test_a_placement_group_without_an_owner_counts_and_leaving_pods_make_it_wait():
    side = ray(head(), worker(1), jobs=(job(),), placement_groups=(replace(TWO, ray_job=""),))
    seen = snapshot(pods=(head(), worker(1)), cluster=cluster(1), ray=side)
    assert ids(seen) == ["job-cannot-finish"]
    leaving = replace(seen, pods=(*seen.pods, worker(2, deleting_since=at(55))))
    assert "job-waits-for-pods" in ids(leaving)


def test_a_replacement_for_which_a_node_is_made_is_waited_for():
    pod = pending(2, node_selector={"kind": "gone"})
    told = event("TriggeredScaleUp", "scale-up", about=pod)
    side = ray(head(), worker(1), jobs=(job(),), placement_groups=(TWO,))
    assert "job-waits-for-pods" in ids(snapshot(pods=(head(), worker(1), pod), ray=side, events=(told,)))


def test_a_suspended_cluster_may_come_back():
    side = ray(head(), worker(1), jobs=(job(),), placement_groups=(TWO,))
    seen = snapshot(pods=(head(), worker(1)), cluster=cluster(1, suspended=True), ray=side)
    assert "job-cannot-finish" not in ids(seen)


def test_a_ray_node_of_another_pod_is_not_taken_for_this_one():
    dead = ray_node(worker(2), state="DEAD", ended_at=at(40), pod="flight-gpu-worker-9")
    assert "ray-node-dead" not in ids(snapshot(ray=ray(nodes=(*ray(*PODS).nodes, dead))))


def test_a_fault_without_a_time_does_not_explain_a_jobs_end():
    end = job(JobStatus.FAILED, driver_exit_code=7, ended_at=at(50))
    ill = replace(worker(2), containers=tuple(replace(it, unhealthy_devices=("GPU-1",)) for it in worker(2).containers))
    seen = snapshot(pods=(head(), worker(1), ill), ray=ray(*PODS, jobs=(end,)))
    assert found(seen)["entrypoint-failed"].consequence_of == ()


def test_a_fault_after_the_jobs_end_does_not_explain_it():
    end = job(JobStatus.FAILED, driver_exit_code=7, ended_at=at(30))
    killed = event("Killing", "Stopping container", about=worker(2), type="Normal", last_at=at(50))
    seen = snapshot(pods=(head(), worker(1)), ray=ray(*PODS, jobs=(end,)), events=(killed,))
    assert found(seen)["entrypoint-failed"].consequence_of == ()


def test_a_job_that_succeeded_leaves_nothing_to_explain():
    seen = snapshot(pods=(head(), worker(1)), ray=ray(head(), jobs=(job(JobStatus.SUCCEEDED, ended_at=at(50)),)))
    assert diagnose(seen).verdict == "healthy"


def test_a_noted_session_alone_says_that_something_is_lost():
    assert ids(snapshot(ray=ray(*PODS, session="session_2")), session=SESSION) == ["ray-session-changed"]
    before = snapshot()  # nothing ran then
    assert ids(snapshot(ray=ray(*PODS, session="session_2")), previous=before) == []
