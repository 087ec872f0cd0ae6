"""Work that is done, and pods that are left over or let go on purpose, are no faults."""

from dataclasses import replace

import pytest

from rayflight.diagnosis import diagnose, diagnose_moments
from rayflight.findings import Decision
from rayflight.snapshot.surroundings import RayJob
from rayflight.states import JobStatus
from tests.made_up import at, cluster, event, gap, head, job, ray, snapshot, worker
from tests.unit.diagnosis.asking import found, ids

PODS = (head(), worker(1), worker(2))
WON = job(JobStatus.SUCCEEDED, ended_at=at(40))
TRACE = (
    "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
    'Traceback (most recent call last):\n  File "/app/a.py", line 3, in f\nValueError: bad lr\n'
)


def rayjob(**changes):
    return RayJob(name="rj", uid="rj-uid", cluster="flight", submission="rj-x", created_at=at(0), **changes)


def test_a_cluster_that_is_taken_away_after_its_work_is_well():
    going = snapshot(cluster=cluster(deleting_since=at(50)), ray=ray(*PODS, jobs=(WON,)))
    assert diagnose(going).verdict == "healthy"
    before = snapshot(ray=ray(*PODS, jobs=(WON,)), taken_at=at(45))
    later = replace(going, ray=None, gaps=gap("ray"))
    assert diagnose_moments([before, later]).verdict == "healthy"
    running = replace(going, ray=ray(*PODS, jobs=(job(),)))
    assert ids(running) == ["cluster-gone"]


def test_a_complete_rayjob_needs_no_cluster():
    gone = snapshot(cluster=None, pods=(), ray=None, gaps=gap("ray"), rayjobs=(rayjob(deployment="Complete"),))
    assert diagnose(gone).verdict == "healthy"
    assert diagnose(replace(gone, rayjobs=(rayjob(deployment="Running"),))).verdict == "unknown"


def test_a_rayjob_keeps_the_end_of_its_job_when_ray_cannot_be_asked():
    told = rayjob(deployment="Failed", status="FAILED", reason="AppFailed", message=TRACE, ended_at=at(40))
    seen = snapshot(ray=None, gaps=gap("ray"), rayjobs=(told,))
    finding = found(seen)["driver-exception"]
    assert "ValueError: bad lr at /app/a.py, line 3, in f" in finding.summary
    assert finding.decision is Decision.FAIL
    other = replace(told, cluster="other")
    assert "driver-exception" not in ids(replace(seen, rayjobs=(other,)))


def test_a_failed_pod_beside_as_many_as_are_desired_is_left_over():
    old = worker(3, node="gpu-1", phase="Failed", reason="Evicted", message="low on resource", started_at=at(1))
    seen = snapshot(pods=(*PODS, old), ray=ray(*PODS, jobs=(job(),)))
    assert ids(seen) == []
    assert diagnose(seen).verdict == "healthy"
    short = replace(seen, pods=(head(), worker(1), old), ray=ray(head(), worker(1), jobs=(job(),)))
    assert ids(short) == ["pod-evicted"]


@pytest.mark.parametrize(("status", "names"), [(JobStatus.SUCCEEDED, []), (JobStatus.RUNNING, ["workers-scaled-down"])])
def test_a_suspended_group_is_a_fault_only_for_a_job_that_is_not_done(status, names):
    told = event("DeletedWorkerPod", "Deleted all pods for suspended worker group gpu in RayCluster team-a/flight")
    killed = tuple(
        event("Killing", "Stopping container", about=worker(n), type="Normal", last_at=at(45)) for n in (1, 2)
    )
    side = ray(head(), jobs=(job(status, ended_at=at(40) if status.ended else None),))
    assert ids(snapshot(cluster=cluster(0), pods=(head(),), events=(told, *killed), ray=side)) == names
