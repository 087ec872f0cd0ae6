"""A job that can never finish is still RUNNING: it is named, and only when nothing more can come."""

from dataclasses import replace

import pytest

from rayflight.diagnosis import decisive, diagnose
from rayflight.findings import Decision
from rayflight.snapshot.model import Condition, Group, PlacementGroup
from rayflight.states import JobStatus
from tests.made_up import (
    GPU,
    SESSION,
    at,
    cluster,
    ended,
    gap,
    head,
    job,
    pending,
    ray,
    snapshot,
    with_container,
    worker,
)
from tests.unit.diagnosis.asking import found, ids

TWO = PlacementGroup(id="pg", state="PENDING", ray_job="02000000", since=at(50), bundles=({"GPU": 1.0}, {"GPU": 1.0}))


def flying(*pods, groups=(TWO,), demands=(), status=JobStatus.RUNNING, **changes):
    ready = tuple(pod for pod in (head(), *pods) if pod.phase == "Running")
    side = ray(*ready, jobs=(job(status),), placement_groups=groups, pending_demands=demands)
    return snapshot(**{"pods": (head(), *pods), "cluster": cluster(len(pods)), "ray": side, **changes})


def test_a_group_larger_than_the_whole_cluster_can_never_be_placed():
    finding = found(flying(worker(1)))["job-cannot-finish"]
    assert finding.decision is Decision.FAIL
    assert "waits for 2 bundles (2 GPU in all), the 2 ALIVE Ray nodes offer 1 GPU" in finding.summary
    assert "all 2 desired pods are there" in finding.summary


def test_a_group_that_a_larger_cluster_of_the_same_shape_could_hold_is_worth_another_cluster():
    smaller = cluster(groups=(Group(name="gpu", desired=1, minimum=0, maximum=2, limits={GPU: "1"}),))
    assert found(flying(worker(1), cluster=smaller))["job-cannot-finish"].decision is Decision.RETRY_ELSEWHERE


@pytest.mark.parametrize(
    "seen",
    [
        flying(worker(1), worker(2)),  # it fits
        flying(worker(1), groups=(replace(TWO, state="CREATED"),)),
        flying(worker(1), groups=(replace(TWO, since=at(59)),)),  # a moment only
        flying(worker(1), groups=(replace(TWO, ray_job="01000000"),)),  # another job's
        flying(worker(1), gaps=gap("ray.placement_groups")),
        flying(worker(1), gaps=gap("pods")),
        flying(worker(1), gaps=gap("ray.nodes")),
        flying(worker(1), status=JobStatus.SUCCEEDED),
    ],
)
def test_without_proof_nothing_is_said(seen):
    assert ids(seen) == []


def test_a_bundle_is_never_split_over_nodes():
    large = replace(TWO, bundles=({"GPU": 2.0},))
    assert "job-cannot-finish" in ids(flying(worker(1), worker(2), groups=(large,)))


def test_a_replacement_on_its_way_is_waited_for():
    coming = worker(2, phase="Pending", conditions=())
    finding = found(flying(worker(1), coming))["job-waits-for-pods"]
    assert finding.decision is Decision.WAIT


def test_an_autoscaler_with_room_may_still_add_nodes():
    groups = (Group(name="gpu", desired=1, minimum=1, maximum=4, limits={GPU: "1"}),)
    seen = flying(worker(1), cluster=cluster(groups=groups, autoscaling=True))
    assert ids(seen) == ["job-waits-for-pods"]
    full = cluster(groups=(replace(groups[0], maximum=1),), autoscaling=True)
    assert ids(replace(seen, cluster=full)) == ["job-cannot-finish"]


def test_an_autoscaler_whose_pods_are_too_small_or_too_few_never_helps():
    def growing(maximum, **seen):
        groups = (Group(name="gpu", desired=1, minimum=1, maximum=maximum, limits={GPU: "1"}),)
        return flying(worker(1), cluster=cluster(groups=groups, autoscaling=True), **seen)

    demand = ("{'CPU': 1.0, 'GPU': 8.0}: 1+ pending tasks/actors",)
    finding = found(growing(4, groups=(), demands=demand))["demand-exceeds-nodes"]
    assert "the autoscaler may add pods of gpu with 1 GPU each" in finding.summary
    eight = replace(TWO, bundles=({"GPU": 1.0},) * 8)
    finding = found(growing(4, groups=(eight,)))["job-cannot-finish"]
    assert "with all that the autoscaler may add there are 4 GPU" in finding.summary
    assert ids(growing(8, groups=(eight,))) == ["job-waits-for-pods"]


def test_a_replacement_without_a_place_never_comes():
    seen = flying(worker(1), pending(2, node_selector={"kind": "gone"}))
    result = found(seen, submission="train-1", session=SESSION)
    assert result["job-cannot-finish"].consequence_of == ("selector-matches-no-node",)
    assert "can never be scheduled" in result["job-cannot-finish"].summary


def test_a_replacement_that_is_refused_for_long_does_not_come():
    def seen(since):
        failure = Condition(type="ReplicaFailure", status="True", message="exceeded quota", since=since)
        return flying(worker(1), cluster=cluster(2, conditions=(failure,)))

    assert "refused at admission" in found(seen(at(10)))["job-cannot-finish"].summary
    assert "job-waits-for-pods" in ids(seen(at(50)))


def test_a_demand_larger_than_every_node_can_never_be_met():
    demand = ("{'GPU': 8.0}: 1+ pending tasks/actors",)
    seen = flying(worker(1), worker(2), groups=(), demands=demand)
    finding = found(seen)["demand-exceeds-nodes"]
    assert finding.decision is Decision.FAIL
    assert "asks for 8 GPU on one Ray node" in finding.summary
    assert ids(replace(seen, gaps=gap("ray.demands"))) == []
    small = flying(worker(1), worker(2), groups=(), demands=("{'GPU': 1.0}: 3+ pending tasks/actors",))
    assert ids(small) == []


def test_a_job_that_has_not_begun_owns_no_group_of_another():
    setting_up = job(JobStatus.PENDING, ray_job="")
    side = ray(head(), worker(1), jobs=(setting_up, job(id="train-2")), placement_groups=(TWO,))
    seen = snapshot(pods=(head(), worker(1)), cluster=cluster(1), ray=side)
    assert "job-cannot-finish" not in found(seen, submission="train-1")
    assert "job-cannot-finish" in found(seen, submission="train-2")


def test_a_demand_may_be_that_of_another_job_that_goes_on():
    demand = ("{'GPU': 8.0}: 1+ pending tasks/actors",)
    seen = flying(worker(1), worker(2), groups=(), demands=demand)
    assert seen.ray is not None

    def beside(status: JobStatus):
        return replace(seen, ray=replace(seen.ray, jobs=(job(), job(status, id="train-2", ray_job="03000000"))))

    assert "demand-exceeds-nodes" not in found(beside(JobStatus.RUNNING), submission="train-1")
    assert "demand-exceeds-nodes" in found(beside(JobStatus.FAILED), submission="train-1")


def test_an_entrypoint_that_asks_for_more_than_any_node_has_stays_pending():
    side = ray(head(), worker(1), jobs=(job(JobStatus.PENDING, ray_job=""),))
    side = replace(side, pending_demands=("{'CPU': 1.0, 'GPU': 8.0}: 1+ pending tasks/actors",))
    seen = snapshot(pods=(head(), worker(1)), cluster=cluster(1), ray=side)
    assert ids(seen) == ["entrypoint-exceeds-nodes"]


@pytest.mark.parametrize("text", ["{'GPU': }: 1+ pending tasks/actors", "8 GPUs: 1+ pending", ""])
def test_a_demand_that_cannot_be_read_proves_nothing(text):
    assert ids(flying(worker(1), worker(2), groups=(), demands=(text,))) == []


def test_a_fault_of_kubernetes_ends_a_running_job_only_when_the_job_is_stuck_for_it():
    loop = {"state": "waiting", "reason": "CrashLoopBackOff", "last": ended(2), "restarts": 3, "ready": False}
    crashing = with_container(worker(2), "ray-worker", **loop)
    alive = ray(head(), worker(1), jobs=(job(),))
    runs = snapshot(pods=(head(), worker(1), crashing), ray=alive)
    assert decisive(diagnose(runs)) != ()
    assert decisive(diagnose(runs, submission="train-1", session=SESSION)) == ()
    stuck = replace(runs, ray=replace(alive, placement_groups=(TWO,)))
    ending = decisive(diagnose(stuck, submission="train-1", session=SESSION))
    assert [item.id for item in ending] == ["crash-loop"]
