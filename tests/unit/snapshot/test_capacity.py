"""What a pod asks for, where it may go, who holds the rest."""

from dataclasses import replace

import pytest

from rayflight.snapshot.capacity import (
    Obstacle,
    asked,
    copies,
    expected_gpus,
    gpu_resource,
    holders,
    modelled,
    places,
    refusals,
)
from rayflight.snapshot.model import Condition, Taint, Toleration
from tests.made_up import GPU, GPU_TAINT, NODES, container, foreign, head, node, snapshot, worker


def affinity(*expressions):
    term = {"matchExpressions": list(expressions)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        ({"cpu": "1", GPU: "1"}, GPU),
        ({"amd.com/gpu": "1"}, "amd.com/gpu"),
        ({"nvidia.com/mig-1g.5gb": "1"}, "nvidia.com/mig-1g.5gb"),
        ({"nvidia.com/gpu.shared": "1"}, None),
        ({"nvidia.com/mig-1g.5gb.shared": "1"}, None),
        ({"cpu": "1"}, None),
    ],
)
def test_the_gpu_resource_is_the_one_that_kuberay_counts(limits, key):
    assert gpu_resource(limits) == key


def test_a_pod_asks_for_its_containers_together_or_its_largest_init_container():
    big = replace(worker(1), containers=(container("init", cpu="3", init=True), container("a"), container("b")))
    assert asked(big)["cpu"] == 3
    assert asked(big)["memory"] == 4 * 2**30


def test_a_sidecar_in_the_init_list_runs_beside_the_others():
    both = (container("side", cpu="3", init=True, sidecar=True), container("ray", cpu="1"))
    assert asked(replace(worker(1), containers=both))["cpu"] == 4


def test_an_empty_affinity_term_matches_no_node():
    assert refusals(worker(1, affinity=affinity()), node("gpu-1", 4))


def test_limits_stand_in_for_absent_requests():
    pod = replace(worker(1), containers=(container("ray", requests={}, limits={GPU: "2"}),))
    assert asked(pod) == {GPU: 2.0}


def test_a_gpu_pod_has_its_places_on_gpu_nodes():
    assert [item.name for item in places(worker(1), NODES)] == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize(
    ("pod", "obstacle", "words"),
    [
        (worker(1, tolerations=()), Obstacle.TAINT, f"has the taint {GPU}=present:NoSchedule"),
        (worker(1, node_selector={"kind": "a100"}), Obstacle.SELECTOR, "has no label kind, the pod selects kind=a100"),
        (worker(1, gpus=8), Obstacle.SIZE, f"has 4 {GPU} allocatable, the pod asks for 8 {GPU}"),
        (worker(1, affinity=affinity({"key": "x", "operator": "Exists"})), Obstacle.SELECTOR, "node affinity"),
    ],
)
def test_an_obstacle_is_named_with_label_taint_or_numbers(pod, obstacle, words):
    (found,) = refusals(pod, node("gpu-1", 4))
    assert found.obstacle is obstacle
    assert words in found.text


@pytest.mark.parametrize(
    "changes",
    [
        {"unschedulable": True},
        {"taints": (GPU_TAINT, Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"))},
        {"conditions": (Condition(type="Ready", status="Unknown"),)},
    ],
)
def test_a_node_that_may_come_back_is_still_a_place(changes):
    found = refusals(worker(1), node("gpu-1", 4, **changes))
    assert [item.obstacle for item in found] == [Obstacle.PASSING]
    assert places(worker(1), [node("gpu-1", 4, **changes)])


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key=GPU, value="present"), True),
        (Toleration(key=GPU, value="true"), False),
        (Toleration(key=GPU, operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(), False),
    ],
)
def test_tolerations_are_read_as_kubernetes_reads_them(toleration, tolerated):
    assert (not refusals(worker(1, tolerations=(toleration,)), node("gpu-1", 4))) is tolerated


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-1"]}, True),
        ({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["gpu-1"]}, False),
        ({"key": "absent", "operator": "DoesNotExist"}, True),
        ({"key": "generation", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "generation", "operator": "Lt", "values": ["7"]}, False),
        ({"key": "generation", "operator": "SomethingNew", "values": ["7"]}, True),
    ],
)
def test_required_node_affinity_is_read(expression, matches):
    place = node("gpu-1", 4)
    place = replace(place, labels={**place.labels, "generation": "8"})
    assert (not refusals(worker(1, affinity=affinity(expression)), place)) is matches


def test_pod_affinity_spread_and_volumes_are_left_to_the_scheduler():
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    assert modelled(worker(1))
    assert not modelled(worker(1, affinity=anti))
    assert not modelled(worker(1, spread=({"whenUnsatisfiable": "DoNotSchedule"},)))
    assert modelled(worker(1, spread=({"whenUnsatisfiable": "ScheduleAnyway"},)))
    assert not modelled(worker(1, claims=("data",)))


def test_holders_are_the_pods_that_still_run_there():
    pods = (worker(1), foreign("busy", "gpu-1", 2), replace(foreign("done", "gpu-1", 1), phase="Succeeded"))
    assert [(pod.name, amount) for pod, amount in holders(NODES[1], GPU, pods)] == [
        ("flight-gpu-worker-1", 1),
        ("busy", 2),
    ]


def test_copies_count_what_is_free_of_every_resource():
    need = {GPU: 1.0, "cpu": 3.0}
    assert copies(need, NODES[1], ()) == 2
    assert copies(need, NODES[1], (foreign("busy", "gpu-1", 4),)) == 0
    assert copies({GPU: 1.0}, NODES[0], ()) == 0
    assert copies({}, node("full", allocatable={"pods": "1"}), (foreign("a", "full", 0),)) == 0


def test_a_head_without_gpus_is_not_expected_to_offer_any():
    assert expected_gpus(head(), snapshot()) == 0
    assert expected_gpus(worker(1), snapshot()) == 1
    assert expected_gpus(worker(1, gpus=2), snapshot()) == 2
