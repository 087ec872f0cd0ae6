"""What the scheduler and a node autoscaler say, joined with what claims and nodes know."""

from dataclasses import replace

from rayflight.findings import Decision
from rayflight.snapshot import capacity
from tests.made_up import GPU, NODES, event, foreign, gap, head, pending, snapshot, worker
from tests.unit.diagnosis.asking import found


def waiting(*pods, **changes):
    return snapshot(pods=(head(), *pods), **changes)


def test_a_volume_in_another_zone_is_named_by_its_claim():
    pod = pending(2, "0/3 nodes are available: 3 node(s) had volume node affinity conflict", claims=("scratch",))
    summary = found(waiting(worker(1), pod))["unschedulable"].summary
    assert "PersistentVolumeClaim scratch is bound to a volume in another zone" in summary
    other = pending(2, "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules", claims=("scratch",))
    assert "another zone" not in found(waiting(worker(1), other))["unschedulable"].summary


def test_an_autoscaler_that_adds_no_node_is_quoted_where_others_hold_the_room():
    pod = pending(2)
    refusing = event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", about=pod)
    holders = (foreign("a", "gpu-1", 3), foreign("b", "gpu-2", 4))
    finding = found(waiting(worker(1), pod, foreign_pods=holders, events=(refusing,)))["resources-held-by-others"]
    assert "the node autoscaler adds none" in finding.summary
    assert "max node group size reached" in finding.summary
    assert finding.decision is Decision.WAIT


def test_a_node_that_lost_a_gpu_is_not_called_too_small():
    pod = pending(2, containers=worker(2, gpus=4).containers)
    ill = tuple(replace(it, allocatable={**it.allocatable, GPU: "3"}) if GPU in it.allocatable else it for it in NODES)
    finding = found(waiting(pod, nodes=ill))["request-exceeds-nodes"]
    assert f"node gpu-1 offers 3 of its 4 {GPU}" in finding.summary
    assert finding.decision is Decision.RETRY_AFTER
    small = tuple(replace(it, capacity=it.allocatable) for it in ill)
    assert found(waiting(pod, nodes=small))["request-exceeds-nodes"].decision is Decision.FAIL


def test_without_nodes_the_schedulers_own_words_are_given():
    pod = pending(2, f"0/4 nodes are available: 4 Insufficient {GPU}.")
    finding = found(waiting(worker(1), pod, nodes=(), gaps=gap("nodes")))["unschedulable"]
    assert f"4 Insufficient {GPU}" in finding.summary
    assert "whether it ever fits is not known" in finding.summary


def test_large_amounts_are_written_out():
    assert capacity.shown("memory", 2048 * 2**30) == "2048 GiB memory"
    assert capacity.shown("memory", 1.5 * 2**30) == "1.5 GiB memory"
