"""A refused pod is explained by the API server's words; a quota is compared with what the whole cluster asks for."""

from dataclasses import replace

import pytest

from rayflight.diagnosis.rules.admission import asked_of
from rayflight.findings import Decision
from rayflight.snapshot.model import Condition, Quota
from tests.made_up import GPU, at, cluster, event, foreign, gap, head, snapshot, worker
from tests.moments import moment
from tests.unit.diagnosis.asking import found, ids

KEY = f"requests.{GPU}"
OVER = f'pods "w-1" is forbidden: exceeded quota: gpus, requested: {KEY}=1, used: {KEY}=1, limited: {KEY}='


def refused(message, **changes):
    failure = Condition(
        type="ReplicaFailure", status="True", reason="FailedCreateWorkerPod", message=message, since=at(1)
    )
    seen = snapshot(cluster=cluster(conditions=(failure,)), pods=(head(), worker(1)))
    return replace(seen, **changes)


def test_a_quota_below_the_request_is_a_failure_with_its_numbers():
    finding = found(refused(f"{OVER}1", quotas=(Quota(name="gpus", hard={KEY: "1"}, used={KEY: "1"}),)))[
        "quota-below-request"
    ]
    assert finding.decision is Decision.FAIL
    assert "ResourceQuota gpus" in finding.summary
    assert "asks for 2, used 1, hard limit 1" in finding.summary
    assert finding.since == at(1)


def test_a_quota_used_up_by_others_is_a_wait_that_names_them():
    quota = Quota(name="gpus", hard={KEY: "8"}, used={KEY: "8"})
    holder = replace(foreign("busy", "gpu-1", 7), namespace="team-a")
    finding = found(refused(f"{OVER}8", quotas=(quota,), foreign_pods=(holder,)))["quota-used-up"]
    assert finding.decision is Decision.WAIT
    assert "held by busy (7)" in finding.summary


def test_bytes_are_written_as_a_quota_writes_them():
    key = "limits.memory"
    words = f"is forbidden: exceeded quota: m, requested: {key}=4Gi, used: {key}=1Gi, limited: {key}=4Gi"
    seen = refused(words, gaps=gap("quotas"))
    group = replace(seen.cluster.groups[0], limits={"memory": "4Gi"})
    summary = found(replace(seen, cluster=replace(seen.cluster, groups=(group,))))["quota-below-request"].summary
    assert "limits.memory: the cluster asks for 8Gi, used 1Gi, hard limit 4Gi (the refused pod alone: 4Gi)" in summary


def test_openshifts_constraints_are_pod_security():
    words = 'pods "w-1" is forbidden: unable to validate against any security context constraint: [provider "anyuid"]'
    assert found(refused(words))["pod-security-refuses"].decision is Decision.FAIL


def test_without_the_quota_object_the_messages_own_limit_decides():
    assert "quota-below-request" in ids(refused(f"{OVER}1", gaps=gap("quotas")))
    assert "quota-used-up" in ids(refused(f"{OVER}8", gaps=gap("quotas")))


def test_a_limit_that_cannot_be_read_proves_no_failure():
    assert "quota-used-up" in ids(refused(f"{OVER}…", gaps=gap("quotas")))


@pytest.mark.parametrize(
    ("key", "amount"),
    [(KEY, 2), ("pods", 3), ("count/pods", 3), ("requests.cpu", 2.5), ("cpu", 2.5), ("limits.cpu", 6), ("services", 0)],
)
def test_a_cluster_asks_of_a_quota_what_its_pods_ask_together(key, amount):
    groups = (replace(cluster().groups[0], limits={GPU: "1", "cpu": "2"}, requests={"cpu": "1"}),)
    made = cluster(groups=groups, head_limits={"cpu": "2"}, head_requests={"cpu": "500m"})
    assert asked_of(made, key) == amount


@pytest.mark.parametrize(
    ("message", "name", "decision"),
    [
        ("failed quota: q: must specify limits.cpu", "quota-must-be-specified", Decision.FAIL),
        ('violates PodSecurity "restricted:latest": runAsNonRoot', "pod-security-refuses", Decision.FAIL),
        ("maximum cpu usage per Container is 2, but limit is 4", "limit-range-refuses", Decision.FAIL),
        ('Invalid value: "1": must be less than or equal to cpu limit', "limit-range-refuses", Decision.FAIL),
        ('admission webhook "x.io" denied the request: no', "webhook-refuses", Decision.FAIL),
        ('failed calling webhook "x.io": connection refused', "webhook-unreachable", Decision.RETRY_AFTER),
        (
            'error looking up service account a/b: serviceaccount "b" not found',
            "service-account-missing",
            Decision.FAIL,
        ),
        ("no PriorityClass with name high was found", "priority-class-missing", Decision.FAIL),
        ('pod rejected: RuntimeClass "nvidia" not found', "runtime-class-missing", Decision.FAIL),
        ("unable to create: because it is being terminated", "namespace-terminating", Decision.FAIL),
        ('pods is forbidden: User "system:sa" cannot create resource', "operator-forbidden", Decision.FAIL),
        ("Pod is invalid: spec.x: Invalid value", "pod-invalid", Decision.FAIL),
        ("etcdserver: request timed out", "pod-creation-failing", Decision.RETRY_AFTER),
    ],
)
def test_the_api_servers_words_tell_the_kind(message, name, decision):
    finding = found(refused(message))[name]
    assert finding.decision is decision
    assert finding.summary.startswith("1 of 3 pods of RayCluster flight cannot be created")


def test_the_event_stands_in_where_the_operator_knows_no_condition():
    told = event("FailedToCreateWorkerPod", f"Failed to create worker Pod, {OVER}1")
    seen = snapshot(pods=(head(), worker(1)), events=(told,))
    assert "quota-below-request" in ids(seen)


def test_an_old_event_is_silent_once_the_condition_says_that_it_is_over():
    told = event("FailedToCreateWorkerPod", OVER)
    over = Condition(type="ReplicaFailure", status="False")
    seen = snapshot(cluster=cluster(conditions=(over,)), pods=(head(), worker(1)), events=(told,))
    assert ids(seen) == []


def test_a_refusal_is_silent_when_every_pod_is_there():
    seen = refused(f"{OVER}1")
    assert ids(replace(seen, pods=(head(), worker(1), worker(2)))) == []


@pytest.mark.parametrize("name", ["quota-of-one-gpu-t008s", "quota-of-one-gpu-t044s"])
def test_a_recorded_quota_is_below_the_request(name):
    finding = found(moment(name))["quota-below-request"]
    assert "gpu-quota" in finding.summary
    assert "unschedulable" not in finding.summary.lower()
