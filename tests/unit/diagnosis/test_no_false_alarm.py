"""Where the rules for logs, queues, nodes and networks must be silent: ordinary life that looks like a fault."""

from dataclasses import replace

import pytest

from rayflight.snapshot.model import Condition, Service
from rayflight.snapshot.surroundings import NetworkPolicy, Workload
from tests.examples.jobs import AGAIN
from tests.examples.pods import HEAD, waiting
from tests.examples.queues import LABEL, evicted, load
from tests.examples.shape import PODS, failed, running
from tests.made_up import NODES, UID, at, cluster, event, head, job, node, ray, snapshot, worker
from tests.unit.diagnosis.asking import found, ids

LATE = "2026-12-01T10:10:00.000Z"


def test_a_preemption_that_is_over_is_history():
    past = Condition(type="Evicted", status="False", reason="QuotaReserved", message="Previously: Preempted")
    again = Condition(type="Preempted", status="False", reason="QuotaReserved", message="Previously: Preempted")
    admitted = Condition(type="QuotaReserved", status="True", reason="QuotaReserved")
    loads = (load(past, again, admitted, evictions={"Preempted": 1}),)
    assert ids(snapshot(cluster=cluster(labels=LABEL), workloads=loads)) == []


def test_another_clusters_workload_says_nothing_of_ours():
    other = Workload(name="x", owner="another-uid", conditions=(evicted("Preempted"),))
    assert ids(snapshot(cluster=cluster(labels=LABEL), workloads=(other,))) == []


def test_an_admitted_cluster_whose_workload_was_not_read_is_not_queued():
    assert ids(snapshot(cluster=cluster(labels=LABEL))) == []


@pytest.mark.parametrize(
    "policy",
    [
        NetworkPolicy(name="egress-only", selector={}, ingress=None),
        NetworkPolicy(name="others", selector={"matchLabels": {"app": "web"}}, ingress=()),
        NetworkPolicy(name="all", selector={}, ingress=({},)),
        NetworkPolicy(name="by-port", selector={}, ingress=({"ports": [{"port": 6379}]},)),
        NetworkPolicy(name="by-range", selector={}, ingress=({"ports": [{"port": 1, "endPort": 65535}]},)),
        NetworkPolicy(name="named-port", selector={}, ingress=({"ports": [{"port": "gcs"}]},)),
        NetworkPolicy(name="by-block", selector={}, ingress=({"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},)),
        NetworkPolicy(name="by-pods", selector={}, ingress=({"from": [{"podSelector": {}}]},)),
    ],
)
def test_a_policy_that_may_let_the_workers_in_is_not_blamed(policy):
    assert "network-policy-blocks-head" not in ids(waiting(network_policies=(policy,)).seen)


def test_a_policy_that_admits_another_port_only_is_blamed():
    policy = NetworkPolicy(name="web", selector={}, ingress=({"ports": [{"port": 8265}]},))
    assert "network-policy-blocks-head" in ids(waiting(network_policies=(policy,)).seen)


def test_a_service_with_a_dashboard_and_a_young_load_balancer_are_well():
    service = Service(name="flight-head-svc", ports={"dashboard": 8265}, kind="LoadBalancer", created_at=at(0))
    assert ids(snapshot(services=(service,))) == []


def test_a_healthy_start_fails_a_few_probes():
    told = event("Unhealthy", "Readiness probe failed: connection refused", about=head(), count=3)
    assert ids(snapshot(events=(told,))) == []


def test_a_worker_that_restarted_after_the_head_is_no_zombie():
    late = replace(worker(2), containers=tuple(replace(it, started_at=at(300)) for it in worker(2).containers))
    served = replace(HEAD, containers=tuple(replace(it, started_at=at(190)) for it in HEAD.containers))
    assert "zombie-workers" not in ids(
        snapshot(pods=(served, worker(1), late), ray=ray(served, worker(1)), taken_at=LATE)
    )


def test_a_cordoned_node_whose_pods_stay_is_no_drain():
    nodes = tuple(replace(it, unschedulable=True) for it in NODES)
    assert ids(snapshot(nodes=nodes), previous=snapshot()) == []


def test_a_node_that_is_gone_without_a_pod_of_ours_is_no_loss():
    assert ids(snapshot(), previous=snapshot(nodes=(*NODES, node("gpu-9", 4)))) == []


def test_an_xid_of_another_node_or_one_that_says_nothing_is_not_ours():
    other = event("XidError", "NVRM: Xid (PCI:0000:3b:00): 79", kind="Node", name="gpu-9", uid="")
    follows = event("XidError", "NVRM: Xid (PCI:0000:3b:00): 45", kind="Node", name="gpu-1", uid="")
    assert ids(snapshot(events=(other, follows))) == []


def test_three_different_errors_or_three_preemptions_are_no_endless_loop():
    different = "".join(AGAIN.format(n, text) for n, text in ((1, "red"), (2, "green"), (3, "blue")))
    assert "train-restarts-without-end" not in ids(snapshot(**running(log=different)))
    preempted = "".join(AGAIN.format(n, n).replace("worker group", "preemption") for n in (1, 2, 3))
    assert "train-restarts-without-end" not in ids(snapshot(**running(log=preempted)))


def test_three_failures_within_a_limit_are_not_endless():
    log = "".join(AGAIN.format(n, n).replace("inf", "5") for n in (1, 2, 3))
    assert "train-restarts-without-end" not in ids(snapshot(**running(log=log)))


def test_a_worker_process_without_cuda_is_not_a_driver_without_one():
    log = "(RayTrainWorker pid=12, ip=10.0.1.1) RuntimeError: No CUDA GPUs are available"
    assert "driver-has-no-gpu" not in ids(snapshot(**failed("exit code 1", log=log, driver_exit_code=1)))


def test_num_gpus_that_was_set_by_hand_is_no_foreign_gpu():
    nodes = tuple(replace(it, resources={"GPU": 8.0}) if it.is_head else it for it in ray(*PODS).nodes)
    seen = snapshot(cluster=cluster(head_start_params={"num-gpus": "8"}), ray=ray(nodes=nodes))
    assert "ray-counts-foreign-gpus" not in ids(seen)


def test_fields_of_a_cluster_that_was_changed_since_are_not_called_dropped():
    assert ids(snapshot(cluster=cluster(generation=2, observed_generation=2))) == []


def test_the_operators_own_words_about_another_account_are_not_its_rights():
    line = 'pods is forbidden: User "system:serviceaccount:ns:trainer" cannot list resource "pods" in API group ""'
    assert ids(snapshot(logs={"kuberay-operator-x/manager": line})) == []


def test_denied_logs_do_not_end_a_training():
    line = (
        'pods "x" is forbidden: User "system:serviceaccount:airflow:w" cannot get resource "pods/log" in API group ""'
    )
    assert ids(snapshot(logs={"airflow-train": line})) == []


def test_a_driver_exception_names_the_users_frame_and_not_the_librarys():
    log = (
        'Traceback (most recent call last):\n  File "/app/train.py", line 3, in <module>\n    fit()\n'
        '  File "/usr/lib/python3.11/site-packages/torch/nn.py", line 9, in fit\n    x\nValueError: no\n'
    )
    said = found(snapshot(**failed("exit code 1", log=log, driver_exit_code=1)))["driver-exception"].summary
    assert "/app/train.py, line 3" in said
    assert "site-packages" not in said


def test_an_own_exit_code_is_not_called_an_exception():
    log = 'Traceback (most recent call last):\n  File "/app/a.py", line 3, in <module>\nValueError: earlier, handled\n'
    assert ids(snapshot(**failed("exit code 7", log=log, driver_exit_code=7))) == ["entrypoint-failed"]


def test_a_running_job_is_not_ended_by_a_deleted_workload_of_itself():
    leaving = Workload(name="w", owner=UID, deleting_since=at(0), finalizers=("kueue.x-k8s.io/resource-in-use",))
    assert ids(snapshot(cluster=cluster(labels=LABEL), workloads=(leaving,), ray=ray(*PODS, jobs=(job(),)))) == []


def test_a_new_session_without_a_preemption_is_not_put_on_kueue():
    never = Condition(type="Preempted", status="False", reason="QuotaReserved", message="")
    seen = snapshot(cluster=cluster(labels=LABEL), workloads=(load(never),), ray=ray(*PODS, session="session_2"))
    assert "kueue-preempted" not in ids(seen, session="session_1")
