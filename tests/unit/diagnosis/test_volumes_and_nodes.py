"""Claims, mounts, machines and devices."""

from dataclasses import replace

import pytest

from rayflight.diagnosis import diagnose
from rayflight.findings import Decision
from rayflight.snapshot.model import Claim, Condition, Event
from tests.made_up import NODES, at, ended, event, gap, head, snapshot, with_container, worker
from tests.unit.diagnosis.asking import found, ids

CLAIMING = worker(2, phase="Pending", claims=("data",))


def claiming(*claims, **changes):
    return snapshot(pods=(head(), worker(1), CLAIMING), claims=claims, **changes)


def about_claim(reason, message, **changes):
    return Event(
        kind="PersistentVolumeClaim",
        name="data",
        reason=reason,
        message=message,
        type="Warning",
        last_at=at(30),
        **changes,
    )


def test_a_missing_claim_is_named():
    finding = found(claiming())["claim-missing"]
    assert finding.decision is Decision.FAIL
    assert "PersistentVolumeClaim data" in finding.summary
    assert "claim-missing" not in ids(claiming(Claim(name="data", phase="Bound")))
    assert "claim-missing" not in ids(claiming(gaps=gap("claims")))


@pytest.mark.parametrize(
    ("told", "decision"),
    [
        (about_claim("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'), Decision.FAIL),
        (about_claim("FailedBinding", "no persistent volumes available and no storage class is set"), Decision.FAIL),
        (about_claim("ProvisioningFailed", "rpc error: quota", count=1), Decision.WAIT),
        (about_claim("ProvisioningFailed", "rpc error: quota", count=5), Decision.FAIL),
    ],
)
def test_an_unbound_claim_is_told_with_its_own_event(told, decision):
    finding = found(claiming(Claim(name="data", phase="Pending"), events=(told,)))["claim-unbound"]
    assert finding.decision is decision
    assert told.message in finding.summary


def test_a_lost_claim_fails():
    assert found(claiming(Claim(name="data", phase="Lost")))["claim-unbound"].decision is Decision.FAIL


def test_a_claim_that_waits_for_its_first_pod_is_pending_by_design():
    told = replace(about_claim("WaitForFirstConsumer", "waiting for first consumer"), type="Normal")
    assert "claim-unbound" not in ids(claiming(Claim(name="data", phase="Pending"), events=(told,)))


def test_a_volume_that_cannot_be_mounted_is_told_after_three_failures():
    def seen(count, message="MountVolume.SetUp failed: mount.nfs: timed out"):
        told = event("FailedMount", message, about=CLAIMING, count=count)
        return claiming(Claim(name="data", phase="Bound"), events=(told,))

    assert found(seen(3))["volume-not-mounted"].decision is Decision.RETRY_AFTER
    assert "volume-not-mounted" not in ids(seen(2))
    assert "volume-not-mounted" in ids(seen(1, "Multi-Attach error for volume x"))


def test_a_node_that_cannot_make_sandboxes_is_left():
    told = event("FailedCreatePodSandBox", "cni plugin not initialized", about=CLAIMING, count=3)
    seen = claiming(Claim(name="data", phase="Bound"), events=(told,))
    assert found(seen)["sandbox-not-made"].decision is Decision.RETRY_ELSEWHERE
    assert "sandbox-not-made" not in ids(replace(seen, events=(replace(told, count=2),)))


def test_a_node_that_is_not_ready_under_our_pods_is_left_after_half_a_minute():
    down = Condition(type="Ready", status="False", reason="KubeletNotReady", since=at(20))
    nodes = (*NODES[:2], replace(NODES[2], conditions=(down,)))
    finding = found(snapshot(nodes=nodes))["node-not-ready"]
    assert finding.decision is Decision.RETRY_ELSEWHERE
    assert "pod/flight-gpu-worker-2" in finding.objects
    assert found(snapshot(nodes=nodes, taken_at=at(40)))["node-not-ready"].decision is Decision.WAIT
    elsewhere = snapshot(nodes=nodes, pods=(head(), worker(1), worker(2, node="gpu-1")))
    assert "node-not-ready" not in ids(elsewhere)


def test_a_node_whose_kubelet_is_silent_was_waited_for_already():
    silent = Condition(type="Ready", status="Unknown", reason="NodeStatusUnknown", since=at(59))
    nodes = (*NODES[:2], replace(NODES[2], conditions=(silent,)))
    assert found(snapshot(nodes=nodes))["node-not-ready"].decision is Decision.RETRY_ELSEWHERE


def test_an_evicted_pod_is_told_with_the_resource_that_was_short():
    gone = worker(2, phase="Failed", reason="Evicted", message="The node was low on resource: ephemeral-storage.")
    finding = found(snapshot(pods=(head(), worker(1), gone)))["pod-evicted"]
    assert finding.decision is Decision.RETRY_ELSEWHERE
    assert "ephemeral-storage" in finding.summary


def test_an_eviction_is_known_from_its_event_when_the_pod_is_gone():
    told = event("Evicted", "The node was low on resource: memory.", about=worker(2))
    seen = snapshot(pods=(head(), worker(1)), events=(told,))
    assert "memory" in found(seen)["pod-evicted"].summary
    other = replace(told, name="other-pod", uid="other")
    assert "pod-evicted" not in ids(replace(seen, events=(other,)))


@pytest.mark.parametrize(
    ("reason", "words"), [("PreemptionByScheduler", "higher priority"), ("EvictionByEvictionAPI", "drained")]
)
def test_a_disrupted_pod_is_told_by_whom(reason, words):
    said = Condition(type="DisruptionTarget", status="True", reason=reason, since=at(45))
    gone = worker(2, conditions=(said,), deleting_since=at(45))
    assert words in found(snapshot(pods=(head(), worker(1), gone)))["pod-evicted"].summary


def test_an_eviction_explains_the_pod_that_is_gone():
    said = Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", since=at(45))
    gone = worker(2, conditions=(said,), deleting_since=at(45))
    seen = found(snapshot(pods=(head(), worker(1), gone)))
    assert seen["worker-pod-lost"].consequence_of == ("pod-evicted",)


def test_a_node_that_refuses_a_device_is_left():
    text = "Allocate failed due to nvml: GPU is lost, which is unexpected"
    pod = worker(2, phase="Failed", reason="UnexpectedAdmissionError", message=text)
    finding = found(snapshot(pods=(head(), worker(1), pod)))["node-refuses-pod"]
    assert finding.decision is Decision.RETRY_ELSEWHERE
    assert "GPU is lost" in finding.summary
    assert "node-refuses-pod" not in ids(snapshot(pods=(head(), worker(1), replace(pod, reason="Error"))))


def test_an_unhealthy_gpu_in_use_is_named():
    pod = with_container(worker(2), "ray-worker", unhealthy_devices=("GPU-7",))
    finding = found(snapshot(pods=(head(), worker(1), pod)))["gpu-unhealthy"]
    assert finding.decision is Decision.RETRY_ELSEWHERE
    assert "GPU-7" in finding.summary


@pytest.mark.parametrize(
    "words",
    [
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object",
        "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=0",
        "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
    ],
)
def test_a_runtime_that_has_no_driver_for_the_container_is_the_nodes_fault(words):
    last = replace(ended(128, "StartError"), message=words)
    broken = with_container(worker(2), "ray-worker", state="waiting", reason="CrashLoopBackOff", ready=False,
                            restarts=3, last=last)  # fmt: skip
    seen = snapshot(pods=(head(), worker(1), broken))
    finding = diagnose(seen).cause
    assert finding.id == "gpu-driver-not-injected"
    assert "node/gpu-2" in finding.objects
    assert finding.decision is Decision.RETRY_ELSEWHERE
    other = replace(last, message='exec: "/opt/run.sh": stat /opt/run.sh: no such file or directory')
    seen = snapshot(pods=(head(), worker(1), with_container(broken, "ray-worker", last=other)))
    assert "gpu-driver-not-injected" not in ids(seen)


def starting(*told):
    pod = worker(2, phase="Pending", claims=("data",), conditions=())
    events = tuple(
        event(reason, words, about=pod, count=9, last_at=at(30 + n)) for n, (reason, words) in enumerate(told)
    )
    return snapshot(pods=(head(), worker(1), pod), events=events, claims=(Claim(name="data", phase="Bound"),))


def test_what_is_wrong_with_one_volume_is_said_before_the_kubelets_summary():
    seen = starting(
        ("FailedAttachVolume", 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other'),
        ("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data]: timed out waiting"),
    )
    summary = found(seen)["volume-not-mounted"].summary
    assert "Multi-Attach error" in summary
    assert "(claim data)" in summary


def test_a_volume_whose_secret_is_missing_is_a_missing_secret():
    seen = starting(("FailedMount", 'MountVolume.SetUp failed for volume "w" : secret "wandb" not found'))
    assert ids(seen) == ["secret-or-configmap-missing"]


def test_a_node_explains_the_eviction_of_its_pods():
    gone = replace(NODES[2], conditions=(Condition(type="Ready", status="Unknown", reason="NodeStatusUnknown",
                                                   message="Kubelet stopped posting", since=at(1)),),
                   labels={**NODES[2].labels, "karpenter.sh/capacity-type": "spot"})  # fmt: skip
    said = Condition(type="DisruptionTarget", status="True", reason="DeletionByTaintManager", since=at(50))
    seen = snapshot(nodes=(*NODES[:2], gone), pods=(head(), worker(1), worker(2, conditions=(said,))))
    first, second = found(seen).values()
    assert (first.id, second.id, second.consequence_of) == ("node-not-ready", "pod-evicted", ("node-not-ready",))
    assert "a spot node" in first.summary
    assert "Kubelet stopped posting" in first.summary


def test_the_kubelet_says_itself_why_it_ended_a_pod():
    said = Condition(type="DisruptionTarget", status="True", reason="TerminationByKubelet", since=at(50),
                     message="Pod was terminated in response to imminent node shutdown.")  # fmt: skip
    seen = snapshot(pods=(head(), worker(1), worker(2, phase="Failed", conditions=(said,))))
    assert "imminent node shutdown" in found(seen)["pod-evicted"].summary
