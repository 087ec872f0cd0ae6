"""What a part that was not read would have told is not made up: neither a fault, nor that there is none."""

from dataclasses import replace

import pytest

from rayflight.diagnosis import diagnose
from rayflight.findings import Decision
from rayflight.snapshot.model import Condition, PlacementGroup
from rayflight.states import JobStatus
from tests.examples.shape import PODS, failed
from tests.made_up import at, cluster, ended, event, gap, head, job, ray, ray_node, snapshot, with_container, worker
from tests.unit.diagnosis.asking import found, ids

GLOO = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:1"
NCCL = "torch.distributed.DistBackendError: NCCL error, remote process exited or there was a network error"
TRAIN = "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous errors"


@pytest.mark.parametrize("error", [GLOO, NCCL, TRAIN])
def test_an_error_about_another_process_is_no_error_of_the_code(error):
    log = f'Traceback (most recent call last):\n  File "/app/train.py", line 9, in main\n{error}\n'
    judged = diagnose(snapshot(**failed("exit code 1", log=log, driver_exit_code=1)))
    assert (judged.verdict, judged.cause) == ("unknown", None)
    assert any("another process failed or went" in fact for fact in judged.facts)
    killed = event("Killing", "Stopping container", about=worker(9, name="flight-gpu-worker-9"), type="Normal")
    judged = diagnose(snapshot(events=(killed,), **failed("exit code 1", log=log, driver_exit_code=1)))
    assert judged.cause.id == "worker-pod-lost"
    assert [item.id for item in judged.consequences] == ["submission-failed"]


def test_a_reset_download_is_the_users_own():
    log = (
        'Traceback (most recent call last):\n  File "/app/get.py", line 2, in f\nConnectionResetError: reset by peer\n'
    )
    assert ids(snapshot(**failed("exit code 1", log=log, driver_exit_code=1))) == ["driver-exception"]


def test_the_end_of_a_log_in_rays_message_stands_for_a_log_that_was_not_collected():
    message = (
        "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
        "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    )
    assert "gpu-uncorrectable-error" in ids(snapshot(**failed(message, driver_exit_code=1)))


def test_without_ray_a_restart_counts_unless_it_is_long_ago_and_the_pods_are_well():
    killed = with_container(worker(2), "ray-worker", restarts=1, last=ended(137, "OOMKilled", 10))
    seen = snapshot(pods=(head(), worker(1), killed), ray=None, gaps=gap("ray"))
    assert ids(seen) == ["container-out-of-memory"]
    later = replace(seen, taken_at="2026-12-01T17:00:00.000Z")
    assert ids(later) == []
    ill = with_container(killed, "ray-worker", ready=False)
    assert "container-out-of-memory" in ids(replace(later, pods=(head(), worker(1), ill)))


def test_a_job_that_began_on_the_new_head_is_not_lost_with_the_old_one():
    told = event("DeletedHeadPod", "Deleted head Pod team-a/flight-head-zzzzz", type="Normal", last_at=at(5))
    seen = snapshot(events=(told,), pods=(), ray=ray(*PODS, jobs=(job(),)), gaps=gap("pods"))
    assert "head-pod-lost" not in ids(seen)
    early = replace(seen, ray=ray(*PODS, jobs=(job(started_at=at(1)),)))
    assert "what replaced it was not read" in found(early)["head-pod-lost"].summary


def test_a_worker_that_ray_let_go_for_idleness_was_not_lost():
    why = "Expected termination: Termination of node that's idle for 60.1 seconds."
    going = worker(2, deleting_since=at(40))
    side = ray(nodes=(*ray(head(), worker(1)).nodes, ray_node(worker(2), state="DEAD", ended_at=at(39), why=why)))
    seen = snapshot(cluster=cluster(1, autoscaling=True), pods=(head(), worker(1), going), ray=side)
    assert ids(seen) == []
    by_hand = replace(seen, cluster=cluster(1))
    assert ids(by_hand) == ["worker-pod-lost"]


def test_a_dead_ray_node_is_not_rays_fault_while_its_machine_may_be_ill():
    unready = worker(2, conditions=(Condition(type="Ready", status="False", since=at(35)),))
    dead = ray_node(worker(2), state="DEAD", ended_at=at(40), why="missing too many heartbeats")
    side = ray(nodes=(*ray(head(), worker(1)).nodes, dead), jobs=(job(JobStatus.RUNNING),))
    seen = snapshot(pods=(head(), worker(1), unready), ray=side)
    assert "ray-node-dead" in ids(seen)
    assert "ray-node-dead" not in ids(replace(seen, nodes=(), gaps=gap("nodes")))


def test_a_container_that_never_began_is_told_in_the_runtimes_words():
    last = replace(ended(128, "StartError"), message='exec: "/opt/run.sh": no such file or directory')
    broken = with_container(worker(2), "ray-worker", state="waiting", reason="CrashLoopBackOff", ready=False,
                            message="back-off 2m40s restarting failed container", restarts=3, last=last)  # fmt: skip
    finding = found(snapshot(pods=(head(), worker(1), broken)))
    assert list(finding) == ["container-cannot-start"]
    assert "/opt/run.sh" in finding["container-cannot-start"].summary
    assert finding["container-cannot-start"].decision is Decision.FAIL


def test_an_error_type_that_only_says_where_it_surfaced_settles_nothing():
    words = "Unexpected error occurred: SchedulingCancelled: Actor creation cancelled."
    seen = snapshot(**failed(words, error_type="JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"))
    assert diagnose(seen).verdict == "unknown"


def test_a_job_that_lost_its_place_to_lowered_replicas_is_explained_by_them():
    told = event("DeletedWorkerPod", "Deleted Pod team-a/flight-gpu-worker-2", type="Normal", last_at=at(39))
    killed = event("Killing", "Stopping container", about=worker(2), type="Normal", last_at=at(40))
    group = PlacementGroup(id="pg", state="RESCHEDULING", ray_job="02000000", since=at(21), bundles=({"GPU": 1.0},) * 2)
    dead = ray_node(worker(2), state="DEAD", ended_at=at(41))
    side = ray(nodes=(*ray(head(), worker(1)).nodes, dead), jobs=(job(),), placement_groups=(group,))
    seen = snapshot(cluster=cluster(1), pods=(head(), worker(1)), events=(killed, told), ray=side)
    first, *rest = found(seen).values()
    assert (first.id, first.decision) == ("workers-scaled-down", Decision.RETRY_ELSEWHERE)
    assert [item.id for item in rest] == ["job-cannot-finish"]
