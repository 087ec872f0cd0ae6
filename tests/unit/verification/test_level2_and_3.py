"""Levels 2 and 3: Ray's picture over Kubernetes', and the devices that the containers really see."""

from dataclasses import replace

import pytest

from rayflight.verification import blocking, verify_all
from tests.made_up import GPU, NODES, cluster, gap, head, ray_node, with_container, worker
from tests.unit.verification.probing import GIB, rank, result, rows, snapshot_with_store, spec, verdicts

SEEN = snapshot_with_store()
assert SEEN.ray
RAY = SEEN.ray
SILENT = replace(SEEN, ray=None, gaps=gap("ray", "HTTP 503"))


def with_nodes(*nodes):
    return replace(SEEN, ray=replace(RAY, nodes=nodes))


def test_a_silent_dashboard_is_unknown_everywhere_and_blocks():
    for name in (
        "ray-runtime-started",
        "gcs-healthy",
        "ray-nodes-alive",
        "pod-mapped-to-ray-node",
        "head-offers-no-gpu",
    ):
        assert set(verdicts(name, SILENT)) == {"unknown"}
    assert {check.id for check in blocking(verify_all(spec(), SILENT, result()))} >= {
        "ray-runtime-started",
        "gpu-count",
    }


def test_another_ray_version_than_asked_fails():
    other = replace(SEEN, ray=replace(RAY, version="2.52.0"))
    assert verdicts("ray-runtime-started", other) == ["failed"]
    assert verdicts("ray-runtime-started", other, asked=spec(ray_version=None)) == ["passed"]


@pytest.mark.parametrize(("healthy", "verdict"), [(True, "passed"), (False, "failed"), (None, "unknown")])
def test_the_gcs_is_healthy_when_it_says_so(healthy, verdict):
    assert verdicts("gcs-healthy", replace(SEEN, ray=replace(RAY, gcs_healthy=healthy))) == [verdict]


def test_every_pod_is_one_alive_ray_node():
    lost = with_nodes(*SEEN.ray.nodes[:2])
    assert verdicts("ray-nodes-alive", lost) == ["failed"]
    assert verdicts("pod-mapped-to-ray-node", lost) == ["passed", "passed", "failed"]
    ghost = with_nodes(*SEEN.ray.nodes, ray_node(worker(9), id="ghost-node"))
    assert "without a pod: ghost-no" in rows("ray-nodes-alive", ghost)[0].observed
    assert verdicts("ray-nodes-alive", ghost) == ["failed"]


def test_a_head_that_offers_gpus_fails():
    claims = with_nodes(ray_node(head(), resources={"GPU": 8.0}), *SEEN.ray.nodes[1:])
    (row,) = rows("head-offers-no-gpu", claims)
    assert (row.verdict, row.observed) == ("failed", "8 GPUs")
    assert 'num-gpus: "0"' in row.next_step


def test_limit_ray_and_container_must_show_the_same_count():
    (first, second) = rows("gpu-count")
    assert first.verdict == second.verdict == "passed"
    assert first.observed == "pod limit 1, Ray 1, container 1"


@pytest.mark.parametrize(
    ("devices", "verdict", "words"),
    [
        ([], "failed", "container 0"),
        ([{"uuid": "a"}, {"uuid": "b"}], "failed", "container 2"),
        (None, "unknown", "could not"),
    ],
)
def test_a_container_that_sees_other_devices_than_it_was_given_fails(devices, verdict, words):
    row = rows("gpu-count", probed=result(rank(0), rank(1, devices=devices, devices_error="driver not loaded")))[1]
    assert row.verdict == verdict
    assert words in row.observed
    if verdict == "failed":
        assert row.evidence == "driver not loaded"


def test_a_claim_of_ray_alone_is_no_gpu():
    lies = with_nodes(*(replace(node, resources={**node.resources, "GPU": 2.0}) for node in SEEN.ray.nodes))
    assert set(verdicts("gpu-count", lies)) == {"failed"}


def test_a_pod_whose_rank_is_silent_is_unknown_and_blocks():
    probed = result(rank(0))
    assert verdicts("gpu-count", probed=probed) == ["passed", "unknown"]
    assert "gpu-count" in {check.id for check in blocking(verify_all(spec(), SEEN, probed))}


def test_a_rank_is_found_by_its_ray_node_where_the_pods_name_is_not_known():
    probed = result(*(rank(number, pod=f"host-{number}") for number in (0, 1)))
    assert verdicts("gpu-count", probed=probed) == ["passed", "passed"]


def test_mig_instances_are_counted_and_not_the_card():
    device = {"uuid": "GPU-1", "name": "A100", "mig": ["MIG-1", "MIG-2"]}
    assert "container 2" in rows("gpu-count", probed=result(rank(0), rank(1, devices=[device])))[1].observed


@pytest.mark.parametrize(
    ("simulated", "asked", "verdict"),
    [(False, False, "passed"), (True, True, "not applicable"), (True, False, "failed"), (False, True, "failed")],
)
def test_simulated_gpus_are_never_taken_for_real_ones(simulated, asked, verdict):
    probed = result(rank(0, simulated=simulated), rank(1, simulated=simulated))
    found = rows("gpu-real", probed=probed, asked=spec(simulated=asked))
    assert [str(row.verdict) for row in found] == [verdict, verdict]
    assert ("SIMULATED" in found[0].observed) is simulated


def test_two_ranks_on_one_gpu_fail():
    probed = result(rank(0), rank(1, pod=rank(0)["pod"], ray_node_id=rank(0)["ray_node_id"]))
    assert verdicts("gpu-assigned-once", probed=probed)[0] == "failed"
    assert verdicts("gpu-assigned-once", probed=result(rank(0), rank(1, gpu_ids=[]))) == ["passed", "failed"]


def test_ranks_that_did_not_say_their_gpus_are_unknown():
    assert verdicts("gpu-assigned-once", probed=result(rank(0), rank(1, gpu_ids=None))) == ["passed", "unknown"]
    assert verdicts("gpu-assigned-once", probed=result(rank(0))) == ["passed", "unknown"]


def test_a_ghost_beside_a_lost_node_does_not_make_the_count_right():
    swapped = with_nodes(*RAY.nodes[:2], ray_node(worker(9), id="ghost-node"))
    assert verdicts("ray-nodes-alive", swapped) == ["failed"]


def test_ray_without_a_head_node_is_unknown():
    assert verdicts("head-offers-no-gpu", with_nodes(*RAY.nodes[1:])) == ["unknown"]


def test_a_device_in_two_pods_fails():
    probed = result(rank(0), rank(1, devices=rank(0)["devices"]))
    (row,) = rows("gpu-uuids-unique", probed=probed)
    assert row.verdict == "failed"
    assert "GPU-0 in flight-gpu-worker-1 on node gpu-1 and flight-gpu-worker-2 on node gpu-2" in row.observed
    assert row.facts == {"gpu": "GPU-0", "pod": "flight-gpu-worker-2", "node": "gpu-2"}


def test_mixed_products_fail():
    other = [{"uuid": "GPU-1", "name": "NVIDIA T4", "memory_mib": 15360, "driver": "550.1"}]
    (row,) = rows("gpu-alike", probed=result(rank(0), rank(1, devices=other)))
    assert row.verdict == "failed"
    assert "NVIDIA T4" in row.observed


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "passed"),
        ({"shm_bytes": 64 * 2**20}, "failed"),
        ({"memory_limit_bytes": GIB // 2}, "failed"),
        ({"memory_limit_bytes": None}, "passed"),
        ({"shm_bytes": None}, "unknown"),
    ],
)
def test_shared_memory_must_hold_the_object_store_below_the_limit(changes, verdict):
    assert verdicts("shared-memory", probed=result(rank(0), rank(1, **changes)))[1] == verdict


@pytest.mark.parametrize(
    ("group", "verdict", "words"),
    [
        ({"shm_size": "2Gi"}, "passed", "asked for: 2 GiB"),
        ({"shm_size": "8Gi"}, "failed", "asked for: 8 GiB"),  # the kubelet mounts as much as the limit allows
        ({"shm_size": "4Gi"}, "failed", "memory limit 4 GiB"),
        ({"ray_start_params": {"memory": str(3 * GIB)}}, "passed", "stated heap 3 GiB"),
        ({"ray_start_params": {"memory": str(7 * GIB // 2)}}, "failed", "stated heap 3.5 GiB"),
    ],
)
def test_shared_memory_and_heap_that_the_shape_states_must_fit_below_the_limit(group, verdict, words):
    row = rows("shared-memory", asked=spec(group=group))[0]
    assert row.verdict == verdict
    assert words in row.observed


def ill(*devices, well=()):
    pods = (*SEEN.pods[:2], with_container(worker(2), "ray-worker", unhealthy_devices=devices, healthy_devices=well))
    return replace(SEEN, pods=pods)


def test_a_device_that_the_kubelet_calls_ill_fails_alone_and_is_named():
    seen = ill("GPU-1")
    (first, second) = rows("gpu-healthy", seen)
    assert (first.verdict, first.observed) == ("passed", "Healthy: GPU-0")
    assert (second.verdict, second.observed) == ("failed", "Unhealthy: GPU-1")
    assert second.facts == {"pod": "flight-gpu-worker-2", "node": "gpu-2", "gpu": "GPU-1"}
    assert [check.id for check in blocking(verify_all(spec(), seen, result()))] == ["gpu-healthy"]


def test_health_that_kubernetes_does_not_tell_is_not_checked():
    assert verdicts("gpu-healthy", ill()) == ["passed", "unknown"]
    assert verdicts("gpu-healthy", replace(SEEN, backend="local")) == ["not applicable"] * 2


def test_a_node_that_offers_less_than_our_pods_hold_fails_alone():
    gone = replace(SEEN, nodes=(*NODES[:2], replace(NODES[2], allocatable={GPU: "0"})))
    (first, second) = rows("gpu-allocatable", gone)
    assert (first.verdict, second.verdict) == ("passed", "failed")
    assert second.observed == "0 allocatable, held by flight-gpu-worker-2"
    assert second.facts["node"] == "gpu-2"
    assert [check.id for check in blocking(verify_all(spec(), gone, result()))] == ["gpu-allocatable"]


def test_allocatable_counts_all_pods_of_a_node_together():
    pods = (SEEN.pods[0], *(worker(number, node="gpu-1", gpus=2) for number in (1, 2)))
    assert rows("gpu-allocatable", replace(SEEN, pods=pods))[0].observed.startswith("4 allocatable")
    fewer = (NODES[0], replace(NODES[1], allocatable={GPU: "3"}), NODES[2])
    assert verdicts("gpu-allocatable", replace(SEEN, pods=pods, nodes=fewer)) == ["failed"]
    assert verdicts("gpu-allocatable", replace(SEEN, nodes=(), gaps=gap("nodes"))) == ["unknown"] * 2


@pytest.mark.parametrize(
    ("answer", "verdict"), [(401, "passed"), (403, "passed"), (200, "failed"), (500, "unknown"), (None, "unknown")]
)
def test_where_a_token_was_asked_for_a_request_without_it_must_be_refused(answer, verdict):
    seen = replace(SEEN, ray=replace(RAY, without_token=answer), cluster=cluster(auth_mode="token"))
    (row,) = rows("token-required", seen, asked=spec(auth="token"))
    assert row.verdict == verdict
    assert row.facts["pod"] == "flight-head-aaaaa"
    blocked = [check.id for check in blocking(verify_all(spec(auth="token"), seen, result()))]
    assert blocked == ([] if verdict == "passed" else ["token-required"])


def test_without_token_mode_nobody_is_refused():
    assert verdicts("token-required") == ["not applicable"]


def test_a_cluster_without_gpus_has_no_gpu_rows():
    pods = (head(), *(worker(number, gpus=0) for number in (1, 2)))
    seen = replace(SEEN, pods=pods)
    asked = spec(group={"gpus": 0})
    for name in ("gpu-count", "gpu-real", "gpu-assigned-once", "gpu-alike", "gpu-uuids-unique"):
        assert set(verdicts(name, seen, asked=asked)) == {"not applicable"}


def test_simulated_gpus_of_a_local_cluster_are_names_and_never_passed():
    """Without containers there is nothing that a process could see: only Ray's own count can be wrong."""
    asked, seen = spec(simulated=True), replace(SEEN, backend="local")
    blind = result(*(rank(number, devices=[], simulated=True) for number in (0, 1)))
    for name in ("gpu-count", "gpu-real", "gpu-alike", "gpu-uuids-unique"):
        found = rows(name, seen, blind, asked=asked)
        assert {row.verdict for row in found} == {"not applicable"}, name
        assert all(row.observed.startswith("SIMULATED") for row in found)
    fewer = replace(RAY, nodes=tuple(replace(node, resources={}) for node in RAY.nodes))
    assert set(verdicts("gpu-count", replace(seen, ray=fewer), blind, asked=asked)) == {"failed"}
    assert "gpu-uuids-unique" in {check.id for check in blocking(verify_all(spec(), seen, blind))}
