"""Heads, workers and clusters that go while they are in use."""

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from rayflight.snapshot.model import PlacementGroup
from rayflight.states import JobStatus
from tests.made_up import (
    SESSION,
    at,
    cluster,
    ended,
    event,
    gap,
    head,
    job,
    ray,
    ray_node,
    snapshot,
    with_container,
    worker,
)
from tests.moments import moment
from tests.unit.diagnosis.asking import found, ids

PODS = (head(), worker(1), worker(2))
BEFORE = snapshot(ray=ray(*PODS, jobs=(job(),)), taken_at=at(30))
NEW_HEAD = head(name="flight-head-bbbbb", uid="other-head")
KILLED = event("Killing", "Stopping container", about=worker(2), type="Normal", last_at=at(40))


def after_head_loss(**changes):
    pods = (NEW_HEAD, worker(1), worker(2))
    return snapshot(pods=pods, **{"ray": ray(NEW_HEAD, session="session_2"), **changes})


def test_a_new_session_means_that_the_job_is_lost_and_not_running():
    seen = found(after_head_loss(), previous=BEFORE)
    assert "submission train-1 is lost, not running" in seen["ray-session-changed"].summary
    assert seen["ray-session-changed"].consequence_of == ("head-pod-lost",)
    assert seen["head-pod-lost"].decision is Decision.RETRY_ELSEWHERE
    assert "flight-head-bbbbb replaces it" in seen["head-pod-lost"].summary


def test_the_session_noted_at_submit_is_enough():
    assert "ray-session-changed" in ids(after_head_loss(), session=SESSION, submission="train-1")
    assert ids(snapshot(ray=ray(*PODS, jobs=(job(),))), session=SESSION, submission="train-1") == []


def test_without_a_noted_session_nothing_is_said_of_one():
    assert "ray-session-changed" not in ids(after_head_loss())


def test_a_head_in_its_grace_is_lost_already():
    seen = snapshot(pods=(head(deleting_since=at(50)), worker(1), worker(2)), ray=BEFORE.ray)
    finding = found(seen, session=SESSION, submission="train-1")["head-pod-lost"]
    assert finding.decision is Decision.RETRY_ELSEWHERE
    assert "was deleted at 2026-12-01T10:00:50" in finding.summary


@pytest.mark.parametrize(("drives", "lost"), [("head", True), ("worker", False)])
def test_with_gcs_fault_tolerance_a_head_takes_only_its_own_drivers_along(drives, lost):
    place = head() if drives == "head" else worker(1)
    flown = job(driver_node_id=ray_node(place).id)
    before = snapshot(ray=ray(*PODS, jobs=(flown,)), taken_at=at(30))
    kept = cluster(fault_tolerant=True)
    seen = after_head_loss(ray=ray(NEW_HEAD, worker(1), worker(2), jobs=(flown,)), cluster=kept)
    result = found(seen, previous=before, session=SESSION, submission="train-1")
    assert ("head-pod-lost" in result) == lost
    if lost:
        assert result["head-pod-lost"].decision is Decision.RETRY_ELSEWHERE
        assert "GCS fault tolerance keeps what Ray knows" in result["head-pod-lost"].summary


def test_a_head_that_is_replaced_before_anything_runs_is_waited_for():
    seen = snapshot(pods=(head(deleting_since=at(50)), worker(1), worker(2)), ray=None)
    assert found(seen)["head-pod-lost"].decision is Decision.WAIT


def test_a_head_that_restarted_in_place_has_lost_its_session_as_well():
    pod = with_container(head(), "ray-head", restarts=1, last=ended(1))
    seen = snapshot(pods=(pod, worker(1), worker(2)), ray=ray(*PODS, session="session_2"))
    result = found(seen, session=SESSION, submission="train-1")
    assert "exit code 1" in result["head-container-restarted"].summary
    assert result["ray-session-changed"].consequence_of == ("head-container-restarted",)
    assert "head-container-restarted" not in ids(replace(seen, ray=ray(*PODS)), session=SESSION)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster": None}, "is not there any more"),
        ({"cluster": cluster(deleting_since=at(55))}, "is being deleted since"),
        ({"cluster": cluster(uid="other")}, "was replaced by another"),
    ],
)
def test_a_cluster_that_goes_is_the_cause(changes, words):
    seen = found(snapshot(**changes), previous=BEFORE)
    assert words in seen["cluster-gone"].summary
    assert seen["cluster-gone"].decision is Decision.RETRY_ELSEWHERE


def test_a_cluster_that_cannot_be_read_is_not_gone():
    assert "cluster-gone" not in ids(snapshot(cluster=None, gaps=gap("cluster")), previous=BEFORE)
    assert "cluster-gone" not in ids(snapshot(cluster=None))


def test_an_earlier_cluster_of_the_same_name_is_not_compared_with():
    earlier = replace(BEFORE, cluster=cluster(uid="earlier"), pods=(head(uid="h", name="flight-head-zzzzz"),))
    assert "head-pod-lost" not in ids(after_head_loss(), previous=earlier)


def test_a_worker_pod_that_is_gone_is_known_from_before_or_from_its_event():
    seen = snapshot(pods=(head(), worker(1), worker(3)), ray=BEFORE.ray)
    assert "flight-gpu-worker-2" in found(seen, previous=BEFORE)["worker-pod-lost"].summary
    assert "a replacement was made" in found(replace(seen, events=(KILLED,)))["worker-pod-lost"].summary
    assert ids(seen) == []
    assert ids(replace(seen, gaps=gap("pods"), events=(KILLED,))) == []


def test_a_job_that_failed_by_it_needs_another_run():
    failed = job(JobStatus.FAILED, driver_exit_code=1, ended_at=at(50), error_type="JOB_ENTRYPOINT_COMMAND_ERROR")
    seen = snapshot(pods=(head(), worker(1), worker(3)), ray=ray(*PODS, jobs=(failed,)), events=(KILLED,))
    result = found(seen)
    assert result["worker-pod-lost"].decision is Decision.RETRY_ELSEWHERE
    assert result["entrypoint-failed"].consequence_of == ("worker-pod-lost",)


def test_a_worker_lost_before_the_job_began_did_not_end_it():
    early = replace(KILLED, last_at=at(5))
    failed = job(JobStatus.FAILED, driver_exit_code=7, started_at=at(20), ended_at=at(50))
    seen = snapshot(pods=(head(), worker(1), worker(3)), ray=ray(*PODS, jobs=(failed,)), events=(early,))
    assert found(seen)["entrypoint-failed"].consequence_of == ()


@pytest.mark.parametrize(
    "message",
    [
        "Deleted Pod team-a/flight-gpu-worker-2",
        "Deleted pod team-a/flight-gpu-worker-2",
        "Deleted worker Pod team-a/flight-gpu-worker-2 for group gpu: autoscaler scale-down request",
    ],
)
def test_the_operators_wording_tells_a_scale_down(message):
    told = event("DeletedWorkerPod", message, type="Normal", last_at=at(39))
    seen = snapshot(cluster=cluster(1), pods=(head(), worker(1)), events=(KILLED, told))
    assert ids(seen) == ["workers-scaled-down"]


IDLE = event("DeletedWorkerPod", "Deleted pod team-a/flight-gpu-worker-2", type="Normal", last_at=at(39))


@pytest.mark.parametrize(
    "changes",
    [
        {"jobs": (job(JobStatus.FAILED, driver_exit_code=3, ended_at=at(50)),)},
        {"jobs": (job(),), "pending_demands": ("{'GPU': 1.0}: 1+ pending tasks/actors",)},
        {"jobs": (job(),), "placement_groups": (PlacementGroup(id="pg", state="RESCHEDULING"),)},
    ],
)
def test_what_the_autoscaler_takes_is_a_loss_only_where_something_misses_it(changes):
    side = ray(head(), worker(1))
    seen = snapshot(cluster=cluster(1, autoscaling=True), pods=(head(), worker(1)), events=(KILLED, IDLE))
    for jobs in ((), (job(),), (job(JobStatus.SUCCEEDED, ended_at=at(30)),)):
        assert ids(replace(seen, ray=replace(side, jobs=jobs))) == []
    assert "workers-scaled-down" in ids(replace(seen, ray=replace(side, **changes)))


def test_what_healed_before_the_job_began_is_history():
    killed = with_container(worker(2), "ray-worker", restarts=1, last=ended(137, "OOMKilled", 10))
    seen = snapshot(pods=(head(), worker(1), killed))
    later = replace(seen, ray=ray(*seen.pods, jobs=(job(),)))
    assert ids(later) == []
    sooner = job(started_at=at(5))
    assert ids(replace(seen, ray=ray(*seen.pods, jobs=(sooner,)))) == ["container-out-of-memory"]
    assert ids(replace(later, ray=ray(head(), worker(1), jobs=(job(),)))) == ["container-out-of-memory"]
    assert ids(seen) == ["container-out-of-memory"]
    assert ids(replace(seen, taken_at=at(900))) == []


def test_a_head_that_was_replaced_before_the_job_began_is_history_and_is_named():
    told = event("DeletedHeadPod", "Deleted head Pod team-a/flight-head-zzzzz; Pod status: Failed", last_at=at(5))
    seen = snapshot(events=(told,))
    assert "Head pod flight-head-zzzzz of" in found(seen)["head-pod-lost"].summary
    assert ids(replace(seen, ray=ray(*seen.pods, jobs=(job(),)))) == []


def test_a_replaced_dead_pod_is_no_scale_down():
    told = event("DeletedWorkerPod", "Deleted worker Pod team-a/flight-gpu-worker-2; Pod status: Failed", type="Normal")
    seen = snapshot(pods=(head(), worker(1), worker(3)), events=(KILLED, told))
    assert ids(seen) == ["worker-pod-lost"]


def test_a_ray_node_that_dies_in_a_living_pod_is_rays_own_fault():
    why = "Unexpected termination: health check failed due to missing too many heartbeats"
    dead = ray_node(worker(2), state="DEAD", ended_at=at(40), why=why)
    seen = snapshot(ray=ray(nodes=(*ray(head(), worker(1)).nodes, dead), jobs=(job(),)))
    finding = found(seen)["ray-node-dead"]
    assert finding.layer == "ray"
    assert "heartbeats" in finding.summary
    restarted = with_container(worker(2), "ray-worker", started_at=at(45), restarts=1, last=ended(1))
    assert "ray-node-dead" not in ids(replace(seen, pods=(head(), worker(1), restarted)))
    assert "ray-node-dead" not in ids(replace(seen, pods=(head(), worker(1))))


def test_recorded_worker_deletion_is_a_wait_and_kubernetes_deed():
    before = moment("worker-pod-deleted-t000")
    for name in ("worker-pod-deleted-t003s", "worker-pod-deleted-t023s", "worker-pod-deleted-t093s"):
        finding = found(moment(name), previous=before)["worker-pod-lost"]
        assert (finding.layer, finding.decision) == ("kubernetes", Decision.WAIT)
        assert "c-gpu-worker-676tw" in finding.summary
    assert ids(before) == []


def test_recorded_head_deletion():
    before = moment("head-pod-deleted-t000")
    assert ids(moment("head-pod-deleted-t021s"), previous=before) == ["head-pod-lost"]
    assert ids(moment("head-pod-deleted-t056s"), previous=before) == ["head-pod-lost", "ray-session-changed"]
    assert ids(moment("head-pod-deleted-t056s"), session=before.ray.session, submission="long1") == [
        "head-pod-lost",
        "ray-session-changed",
    ]


@pytest.mark.parametrize(
    ("reason", "cause"), [("OOMKilled", "container-out-of-memory"), ("Error", "raylet-died")], ids=["confirmed", "not"]
)
def test_a_raylet_that_took_its_container_along_died_of_memory_where_kubernetes_confirms_it(reason, cause):
    pod = with_container(worker(2), "ray-worker", restarts=1, last=ended(1, reason))
    said = "Some Ray subprocesses exited unexpectedly:\n  raylet [exit code=-9]\n"
    seen = snapshot(
        pods=(head(), worker(1), pod),
        logs={f"{pod.name}/ray-worker/previous": said},
        ray=ray(*PODS, jobs=(job(JobStatus.FAILED, message="the actor died", driver_exit_code=1),)),
    )
    result = found(seen, submission="train-1")
    assert {"container-out-of-memory", "raylet-died"} & set(result) == {cause}
    assert "with exit code -9" in result[cause].summary
