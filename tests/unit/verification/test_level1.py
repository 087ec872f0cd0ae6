"""Level 1: Kubernetes' objects are as asked."""

from dataclasses import replace

import pytest

from rayflight.snapshot.model import Group, Service, Taint
from rayflight.verification import blocking, verify_all
from tests.made_up import GPU, NODES, cluster, gap, head, pending, snapshot, with_container, worker
from tests.unit.verification.probing import result, rows, snapshot_with_store, spec, verdicts

SEEN = snapshot_with_store()


def test_a_healthy_cluster_passes_everything_that_applies():
    checks = verify_all(spec(), SEEN, result())
    assert {str(check.verdict) for check in checks} == {"passed", "not applicable"}
    assert [check.level for check in checks] == sorted(check.level for check in checks)
    assert blocking(checks) == ()


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (cluster(1), "has 1 pods, 2 were asked for"),
        (cluster(groups=()), "worker group gpu is not stored"),
        (cluster(groups=(Group(name="gpu", desired=2),)), f"has 0 {GPU} per pod, 1 were asked for"),
        (cluster(groups=(*cluster().groups, Group(name="more", desired=1))), "more was not asked for"),
        (cluster(dropped=("spec.authOptions",)), "spec.authOptions was asked for and is not stored"),
    ],
)
def test_what_is_stored_otherwise_than_asked_is_named(stored, words):
    (row,) = rows("cluster-stored-as-asked", replace(SEEN, cluster=stored))
    assert row.verdict == "failed"
    assert words in row.observed


def test_a_dropped_token_mode_is_named():
    asked = spec(auth="token")
    assert "open to everybody" in rows("cluster-stored-as-asked", SEEN, asked=asked)[0].observed
    kept = replace(SEEN, cluster=cluster(auth_mode="token"))
    assert verdicts("cluster-stored-as-asked", kept, asked=asked) == ["passed"]


def test_an_autoscaled_group_may_have_any_size_between_its_bounds():
    asked = spec(autoscaler={}, group={"min_replicas": 1, "max_replicas": 4})
    for size, verdict in ((1, "passed"), (4, "passed"), (5, "failed")):
        assert verdicts("cluster-stored-as-asked", replace(SEEN, cluster=cluster(size)), asked=asked) == [verdict]


def test_a_cluster_that_is_not_there_fails_and_one_that_cannot_be_read_is_unknown():
    assert verdicts("cluster-stored-as-asked", replace(SEEN, cluster=None)) == ["failed"]
    assert verdicts("cluster-stored-as-asked", replace(SEEN, cluster=None, gaps=gap("cluster"))) == ["unknown"]


def test_pods_must_be_ready_in_kubernetes_here():
    """Level 1 is Kubernetes' own picture; wait_ready goes by Ray's."""
    seen = replace(SEEN, pods=(head(conditions=()), worker(1), worker(2, conditions=())))
    assert verdicts("head-pod-ready", seen) == ["failed"]
    (row,) = rows("worker-pods-ready", seen)
    assert row.observed == "1 Ready of 2 (gpu-1: 1)"
    assert "flight-gpu-worker-2 Running, not Ready" in row.evidence
    assert verdicts("head-pod-ready", replace(SEEN, pods=(worker(1), worker(2)))) == ["failed"]
    assert verdicts("worker-pods-ready", replace(SEEN, pods=(), gaps=gap("pods"))) == ["unknown"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"taints": (Taint(key="down", effect="NoSchedule"),)}, "has the taint down:NoSchedule"),
        ({"labels": {}}, f"has no label {GPU}.present"),
    ],
)
def test_a_node_that_changed_under_the_pods_is_named(change, words):
    nodes = (*NODES[:2], replace(NODES[2], **change))
    (row,) = rows("nodes-match", replace(SEEN, nodes=nodes))
    assert row.verdict == "failed"
    assert f"pod flight-gpu-worker-2: node gpu-2 {words}" in row.observed
    assert row.facts == {"pod": "flight-gpu-worker-2", "node": "gpu-2"}


def test_nodes_that_cannot_be_read_are_unknown_but_do_not_block():
    seen = replace(SEEN, nodes=(), gaps=gap("nodes"))
    assert verdicts("nodes-match", seen) == ["unknown"]
    assert blocking(verify_all(spec(), seen, result())) == ()


def test_a_spread_that_was_required_is_measured_over_the_nodes_that_fit():
    packed = replace(SEEN, pods=(head(), worker(1), worker(2, node="gpu-1")))
    assert verdicts("worker-pods-spread", packed) == ["failed"]
    assert verdicts("worker-pods-spread", SEEN) == ["passed"]
    preferred = spec(group={"spread": "preferred"})
    assert verdicts("worker-pods-spread", packed, asked=preferred) == ["passed"]
    assert verdicts("worker-pods-spread", packed, asked=spec(group={"spread": "none"})) == ["not applicable"]


def test_one_image_name_with_two_image_ids_is_found():
    moved = with_container(worker(2), "ray-worker", image_id="sha256:2")
    (row,) = rows("same-image", replace(SEEN, pods=(head(), worker(1), moved)))
    assert row.verdict == "failed"
    assert "sha256:2: pod flight-gpu-worker-2 on node gpu-2" in row.observed
    assert row.facts == {"pod": "flight-gpu-worker-2", "node": "gpu-2"}
    starting = with_container(worker(2), "ray-worker", image_id="")
    assert verdicts("same-image", replace(SEEN, pods=(head(), worker(1), starting))) == ["unknown"]


def test_an_image_that_somebody_changed_in_one_pod_is_found_and_a_mirror_for_all_is_not():
    changed = with_container(worker(2), "ray-worker", image="registry.example/ray:other", image_id="sha256:2")
    (row,) = rows("same-image", replace(SEEN, pods=(head(), worker(1), changed)))
    assert row.verdict == "failed"
    assert "pod flight-gpu-worker-2 on node gpu-2 (registry.example/ray:other)" in row.observed
    mirrored = (
        with_container(pod, pod.containers[-1].name, image=f"mirror.example/{number}")
        for number, pod in enumerate(SEEN.pods)
    )
    assert verdicts("same-image", replace(SEEN, pods=tuple(mirrored))) == ["passed"]


def test_the_head_service_must_have_all_three_ports():
    seen = replace(SEEN, services=(Service(name="flight-head-svc", ports={"gcs-server": 6379}),))
    assert verdicts("head-service-ports", seen) == ["failed"]
    assert verdicts("head-service-ports", replace(SEEN, services=())) == ["failed"]
    assert verdicts("head-service-ports", replace(SEEN, services=(), gaps=gap("services"))) == ["unknown"]


def test_without_kubernetes_its_objects_are_not_applicable_and_never_passed():
    checks = verify_all(spec(), replace(SEEN, backend="local"), result())
    assert {str(check.verdict) for check in checks if check.level == 1} == {"not applicable"}


def test_the_head_service_is_the_one_that_the_cluster_names():
    named = replace(SEEN, services=(Service(name="other", ports={"dashboard": 1, "gcs-server": 2, "client": 3}),))
    assert verdicts("head-service-ports", named) == ["failed"]
    unnamed = replace(named, cluster=cluster(head_service=""))
    assert verdicts("head-service-ports", unnamed) == ["passed"]


def test_pods_that_cannot_be_read_are_unknown_rows():
    seen = replace(SEEN, pods=(), gaps=gap("pods"))
    for name in ("head-pod-ready", "nodes-match", "worker-pods-ready"):
        assert verdicts(name, seen) == ["unknown"]


def test_a_pending_worker_is_not_ready():
    seen = snapshot(pods=(head(), worker(1), pending(2)))
    assert verdicts("worker-pods-ready", seen) == ["failed"]
