"""Never is said only when arithmetic proves it and no node autoscaler could add room (decision 12)."""

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from rayflight.snapshot.model import Taint
from tests.made_up import GPU, GPU_TAINT, NODES, at, cluster, event, foreign, gap, head, node, pending, snapshot, worker
from tests.moments import moment
from tests.unit.diagnosis.asking import found, ids


def waiting(*pods, **changes):
    return snapshot(pods=(head(), *pods), **changes)


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"tolerations": ()}, "taint-not-tolerated", f"node gpu-1 has the taint {GPU}=present:NoSchedule"),
        ({"node_selector": {"kind": "a100"}}, "selector-matches-no-node", "has no label kind"),
        ({"gpus": 8}, "request-exceeds-nodes", f"has 4 {GPU} allocatable, the pod asks for 8 {GPU}"),
        ({"tolerations": (), "gpus": 8}, "no-node-fits", f"asks for 8 {GPU}"),
    ],
)
def test_a_pod_that_fits_no_node_is_told_why(changes, name, words):
    pod = pending(2, containers=worker(2, gpus=changes.pop("gpus", 1)).containers, **changes)
    finding = found(waiting(worker(1), pod))[name]
    assert finding.decision is Decision.FAIL
    assert words in finding.summary
    assert "node/gpu-1" in finding.objects or name == "selector-matches-no-node"


def test_the_nodes_that_were_selected_are_the_ones_that_count():
    """The binding constraint on the selected nodes is the cpu, not the label that the others lack."""
    pod = pending(2, containers=(replace(worker(2).containers[1], requests={"cpu": "16", GPU: "1"}),))
    finding = found(waiting(worker(1), pod))["request-exceeds-nodes"]
    assert "8 cpu allocatable, the pod asks for 16 cpu" in finding.summary
    assert "1 other node excluded by" in finding.summary


def test_the_scheduler_needs_to_have_said_so_for_as_long_as_an_autoscaler_needs():
    pod = pending(2, tolerations=(), since=at(50))
    early = waiting(worker(1), pod, taken_at=at(61))
    assert found(early)["unschedulable"].decision is Decision.WAIT
    assert ids(replace(early, taken_at=at(62))) == ["taint-not-tolerated"]


def test_an_autoscaler_that_refuses_makes_it_never_at_once():
    pod = pending(2, tolerations=(), since=at(59))
    told = event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 node(s) had untolerated taint", about=pod)
    finding = found(waiting(worker(1), pod, events=(told,)))["taint-not-tolerated"]
    assert finding.decision is Decision.FAIL
    assert "didn't trigger scale-up" in finding.summary


def test_an_autoscaler_in_back_off_may_act_later():
    pod = pending(2, tolerations=())
    told = event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up", about=pod)
    finding = found(waiting(worker(1), pod, events=(told,)))["taint-not-tolerated"]
    assert finding.decision is Decision.RETRY_AFTER
    assert finding.retry_after


@pytest.mark.parametrize(("reason", "source"), [("TriggeredScaleUp", "cluster-autoscaler"), ("Nominated", "karpenter")])
def test_an_autoscaler_that_acts_is_waited_for(reason, source):
    pod = pending(2, tolerations=())
    told = event(reason, "scale-up to 3", about=pod, source=source, type="Normal")
    seen = waiting(worker(1), pod, events=(told,))
    assert found(seen)["node-autoscaler-acting"].decision is Decision.WAIT
    assert ids(replace(seen, taken_at=at(960))) == ["taint-not-tolerated"]  # its promise is 15 minutes old


def test_the_later_word_of_an_autoscaler_counts():
    pod = pending(2, tolerations=())
    acted = event("TriggeredScaleUp", "scale-up", about=pod, last_at=at(20))
    refused = event("NotTriggerScaleUp", "max node group size reached", about=pod, last_at=at(40))
    assert ids(waiting(worker(1), pod, events=(acted, refused))) == ["taint-not-tolerated"]


def test_nodes_that_cannot_be_read_prove_nothing():
    finding = found(waiting(worker(1), pending(2, tolerations=()), nodes=(), gaps=gap("nodes")))["unschedulable"]
    assert finding.decision is Decision.WAIT
    assert "nodes could not be read (forbidden)" in finding.summary


def test_more_workers_than_the_nodes_together_can_hold_never_fit():
    pods = (*(worker(n, node="gpu-1", gpus=2) for n in (1, 2)), *(pending(n) for n in (3, 4, 5)))
    pods = tuple(replace(pod, containers=worker(1, gpus=2).containers) for pod in pods)
    finding = found(waiting(*pods, cluster=cluster(5)))["not-enough-in-total"]
    assert finding.decision is Decision.FAIL
    assert f"5 worker pods of group gpu need 10 {GPU} (2 {GPU} each)" in finding.summary
    assert "hold 4 such pods" in finding.summary
    assert "gpu-1 has 4, gpu-2 has 4" in finding.summary


def test_the_head_counts_in_the_total():
    """Each fits alone, and the workers together, but not the head beside them."""
    big = node("big", 4, allocatable={"cpu": "4", "memory": "32Gi", "pods": "110", GPU: "4"})
    own = (head(node="big", tolerations=worker(1).tolerations), pending(1), pending(2), pending(3), pending(4))
    seen = snapshot(pods=own, nodes=(big,), cluster=cluster(4))
    finding = found(seen)["not-enough-in-total"]
    assert "Not enough cpu: the cluster's 5 pods, head included, need 5 cpu" in finding.summary
    assert "not-enough-in-total" not in ids(replace(seen, nodes=(big, node("cpu-1"))))


def test_unhealthy_devices_make_it_a_shortage_for_now():
    ill = node("gpu-1", 4)
    ill = replace(ill, allocatable={**ill.allocatable, GPU: "1"})
    pods = (worker(1, node="gpu-1"), pending(2))
    finding = found(waiting(*pods, nodes=(node("cpu-1"), ill)))["not-enough-in-total"]
    assert finding.decision is Decision.RETRY_AFTER
    assert "unhealthy or withdrawn: gpu-1 3" in finding.summary


@pytest.mark.parametrize("capacity", [{}, {GPU: "4"}])
def test_gpu_nodes_without_gpus_lack_their_device_plugin(capacity):
    bare = node("gpu-1", taints=(GPU_TAINT,), labels={f"{GPU}.present": "true"}, capacity=capacity)
    finding = found(waiting(pending(1), pending(2), nodes=(node("cpu-1"), bare)))["device-plugin-absent"]
    assert finding.decision is Decision.RETRY_AFTER
    assert "gpu-1" in finding.summary
    assert ("capacity still says" in finding.summary) is bool(capacity)


def test_a_cluster_without_gpu_nodes_lacks_no_device_plugin():
    pods = (pending(1, node_selector={}), pending(2, node_selector={}))
    assert ids(waiting(*pods, nodes=(node("cpu-1"),))) == ["request-exceeds-nodes"]


def test_our_own_pods_in_the_way_are_told_apart_from_a_shortage():
    small = node("gpu-1", 1, allocatable={"cpu": "2", "memory": "8Gi", "pods": "110", GPU: "1"})
    pods = (
        head(node="gpu-1"),
        pending(1, containers=(replace(worker(1).containers[1], requests={"cpu": "1500m", GPU: "1"}),)),
    )
    seen = snapshot(pods=pods, cluster=cluster(1), nodes=(small, node("cpu-1")))
    finding = found(seen)["own-pods-in-the-way"]
    assert finding.decision is Decision.RETRY_ELSEWHERE
    assert "flight-head-aaaaa on gpu-1" in finding.summary


def test_gpus_that_others_hold_are_waited_for_by_name():
    holders = (foreign("busy", "gpu-1", 3), replace(foreign("more", "gpu-2", 4), deleting_since=at(50)))
    finding = found(waiting(worker(1), pending(2), foreign_pods=holders))["resources-held-by-others"]
    assert finding.decision is Decision.WAIT
    assert "team-b/busy (3)" in finding.summary
    assert "team-b/more (4, terminating)" in finding.summary


@pytest.mark.parametrize(
    "changes",
    [{"unschedulable": True}, {"taints": (GPU_TAINT, Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"))}],
)
def test_nodes_that_may_come_back_are_waited_for(changes):
    nodes = (NODES[0], *(replace(item, **changes) for item in NODES[1:]))
    finding = found(waiting(worker(1), pending(2), nodes=nodes))["nodes-not-usable-now"]
    assert finding.decision is Decision.WAIT


def test_what_the_arithmetic_cannot_explain_is_left_to_the_schedulers_words():
    finding = found(waiting(worker(1), pending(2, "0/3 nodes: 2 didn't satisfy anti-affinity")))["unschedulable"]
    assert finding.decision is Decision.WAIT
    assert "anti-affinity" in finding.summary


@pytest.mark.parametrize("pod", [worker(2), pending(2, scheduling_gates=("g",)), worker(2, phase="Pending", node="")])
def test_a_pod_that_the_scheduler_has_not_refused_gives_no_such_finding(pod):
    names = set(ids(waiting(worker(1), pod)))
    assert not names & {"taint-not-tolerated", "unschedulable", "resources-held-by-others"}


def test_a_pod_without_a_word_of_its_scheduler_has_none():
    pod = worker(2, phase="Pending", node="", conditions=(), scheduler="volcano")
    seen = waiting(worker(1), pod)
    finding = found(seen)["no-scheduler"]
    assert finding.decision is Decision.FAIL
    assert "volcano does not run" in finding.summary
    assert "no-scheduler" not in ids(replace(seen, taken_at=at(9)))
    assert "no-scheduler" not in ids(replace(seen, events=(event("Scheduled", "x", about=pod),)))
    assert "no-scheduler" not in ids(replace(seen, gaps=gap("events")))


def test_the_default_scheduler_may_be_between_two_leaders():
    seen = waiting(worker(1), worker(2, phase="Pending", node="", conditions=()), taken_at=at(59))
    assert "no-scheduler" not in ids(seen)
    assert found(replace(seen, taken_at=at(60)))["no-scheduler"].decision is Decision.RETRY_AFTER


@pytest.mark.parametrize(
    ("name", "expected", "words"),
    [
        ("too-few-gpus-t008s", "unschedulable", "a node autoscaler may still act"),
        ("too-few-gpus-t046s", "not-enough-in-total", f"5 worker pods of group gpu need 5 {GPU}"),
        ("tainted-gpu-node-t009s", "unschedulable", f"has the taint {GPU}=present:NoSchedule"),
        ("tainted-gpu-node-t041s", "taint-not-tolerated", f"has the taint {GPU}=present:NoSchedule"),
    ],
)
def test_recorded_moments(name, expected, words):
    finding = found(moment(name))[expected]
    assert words in finding.summary


def test_a_recorded_taint_that_is_not_there_is_not_blamed():
    nodes = moment("healthy-t027s").nodes
    seen = replace(moment("tainted-gpu-node-t041s"), nodes=nodes)
    assert "taint-not-tolerated" not in ids(seen)
