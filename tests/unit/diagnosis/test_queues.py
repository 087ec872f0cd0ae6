"""Waiting in a queue is not a fault."""

from dataclasses import replace

from rayflight.findings import Decision
from rayflight.snapshot.model import Condition
from tests.examples.queues import EXAMPLES
from tests.made_up import cluster, head, snapshot, worker
from tests.unit.diagnosis.asking import found, ids


def test_a_cluster_that_kueue_suspended_waits_in_its_queue():
    seen = snapshot(cluster=cluster(suspended=True, labels={"kueue.x-k8s.io/queue-name": "gpu"}), pods=(), ray=None)
    finding = found(seen)["queued-by-kueue"]
    assert finding.decision is Decision.WAIT
    assert "queue gpu" in finding.summary


def test_a_cluster_that_somebody_suspended_is_told_apart():
    assert ids(snapshot(cluster=cluster(suspended=True), pods=(), ray=None)) == ["suspended-by-hand"]


def test_a_gated_pod_waits_and_is_not_missed_by_a_scheduler():
    pod = worker(2, phase="Pending", node="", scheduling_gates=("kueue.x-k8s.io/admission",), conditions=())
    finding = found(snapshot(pods=(head(), worker(1), pod)))
    assert list(finding) == ["pods-gated"]
    assert finding["pods-gated"].decision is Decision.WAIT


def test_a_cluster_that_runs_is_not_in_a_queue():
    assert ids(snapshot()) == []


def test_an_admission_check_decides_after_the_quota():
    example = EXAMPLES["kueue-admission-check"]
    assert found(example.seen)["kueue-admission-check"].decision is Decision.WAIT
    (load,) = example.seen.workloads or ()
    refused = replace(load, checks=(replace(load.checks[0], state="Rejected"),))
    assert found(replace(example.seen, workloads=(refused,)))["kueue-admission-check"].decision is Decision.FAIL
    admitted = replace(load, conditions=(*load.conditions, Condition(type="Admitted", status="True")))
    assert "kueue-admission-check" not in ids(replace(example.seen, workloads=(admitted,)))
