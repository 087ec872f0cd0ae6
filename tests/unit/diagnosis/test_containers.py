"""Containers that cannot start or keep ending, init containers first; memory only where the kernel's kill is proven."""

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from tests.made_up import at, container, ended, event, head, snapshot, with_container, worker
from tests.moments import moment
from tests.unit.diagnosis.asking import found, ids


def broken(name="ray-worker", *, phase="Running", **state):
    pod = with_container(worker(2, phase=phase), name, ready=False, **state)
    return snapshot(pods=(head(), worker(1), pod))


CONFIG = {"state": "waiting", "reason": "CreateContainerConfigError", "phase": "Pending"}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ('secret "s3" not found', "secret s3 does not exist"),
        ('configmap "scripts" not found', "configmap scripts does not exist"),
        ("couldn't find key token in Secret team-a/s3", "key token does not exist in Secret team-a/s3"),
    ],
)
def test_a_missing_secret_is_named_also_in_an_init_container(message, words):
    finding = found(broken("wait-gcs-ready", message=message, **CONFIG))["secret-or-configmap-missing"]
    assert finding.decision is Decision.FAIL
    assert words in finding.summary


@pytest.mark.parametrize("reason", ["Failed", "FailedMount"])
def test_the_event_tells_of_a_missing_secret_before_the_status(reason):
    seen = broken(phase="Pending", state="waiting", reason="PodInitializing")
    told = event(reason, 'Error: secret "s3" not found', about=seen.pods[2])
    assert "secret s3" in found(replace(seen, events=(told,)))["secret-or-configmap-missing"].summary
    running = replace(seen, pods=(head(), worker(1), worker(2)), events=(told,))
    assert ids(running) == []


def test_the_root_certificate_that_comes_a_moment_later_is_no_fault():
    seen = broken(phase="Pending", state="waiting", reason="PodInitializing")
    told = event("FailedMount", 'configmap "kube-root-ca.crt" not found', about=seen.pods[2])
    assert ids(replace(seen, events=(told,))) == []


@pytest.mark.parametrize(
    "state",
    [
        {**CONFIG, "message": "container has runAsNonRoot and image will run as root"},
        {"state": "waiting", "reason": "RunContainerError", "message": "exec: no such file"},
        {"state": "terminated", "terminated": ended(128, "StartError")},
    ],
)
def test_a_container_that_cannot_be_started_is_named(state):
    finding = found(broken(**state))["container-cannot-start"]
    assert finding.decision is Decision.FAIL
    assert "Container ray-worker of pod flight-gpu-worker-2" in finding.summary


@pytest.mark.parametrize(
    "state",
    [
        {"state": "waiting", "reason": "CrashLoopBackOff", "restarts": 1, "last": ended(2)},
        {"state": "running", "restarts": 2, "last": ended(2)},
        {"state": "terminated", "restarts": 3, "terminated": ended(2), "last": ended(2)},
    ],
)
def test_a_loop_is_seen_in_every_state_that_it_flips_through(state):
    finding = found(broken(**state))["crash-loop"]
    assert finding.decision is Decision.FAIL
    assert "exit code 2" in finding.summary


def test_the_kubelets_back_off_event_tells_a_loop_after_the_second_end():
    seen = broken(state="running", restarts=1, last=ended(2))
    told = event("BackOff", "Back-off restarting failed container ray-worker in pod x", about=seen.pods[2])
    assert "crash-loop" in ids(replace(seen, events=(told,)))
    pulling = replace(told, message="Back-off pulling image x")
    assert "crash-loop" not in ids(replace(seen, events=(pulling,)))


@pytest.mark.parametrize(
    "state",
    [
        {"state": "running", "restarts": 1, "last": ended(2)},  # once, as after a head that restarted
        {"state": "running", "restarts": 2, "last": ended(0)},
        {"state": "running", "restarts": 2},
    ],
)
def test_one_restart_or_a_clean_end_is_no_loop(state):
    assert "crash-loop" not in ids(broken(**state))


@pytest.mark.parametrize("state", ["running", "terminated", "waiting"])
def test_workers_that_have_no_head_to_join_are_in_no_loop_of_their_own(state):
    """Seen on an overloaded machine: heads took minutes to start, and `ray start` of the workers gave up."""
    seen = broken(state="running", restarts=2, last=ended(1))
    starting = with_container(head(), "ray-head", ready=False, state=state)
    assert "crash-loop" not in ids(replace(seen, pods=(starting, *seen.pods[1:])))


def test_a_container_that_is_ready_again_is_in_no_loop():
    pod = with_container(worker(2), "ray-worker", restarts=3, last=ended(2))
    assert ids(snapshot(pods=(head(), worker(1), pod))) == []


def test_a_loop_quotes_the_last_lines_of_its_log():
    seen = broken(state="running", restarts=2, last=ended(2))
    logs = {"flight-gpu-worker-2/ray-worker/previous": "Usage: ray start\nError: No such option '--x'.\n"}
    assert "No such option '--x'" in found(replace(seen, logs=logs))["crash-loop"].summary
    assert "log was not read" in found(seen)["crash-loop"].summary


@pytest.mark.parametrize("name", ["worker-bad-flag-t024s", "worker-bad-flag-t066s"])
def test_a_recorded_bad_flag_is_one_loop_of_both_pods(name):
    finding = found(moment(name))["crash-loop"]
    assert "2 pods" in finding.summary
    assert "exit code 2" in finding.summary
    assert "OOM" not in finding.summary


def test_memory_is_blamed_when_the_kernel_killed():
    seen = broken(state="running", restarts=1, last=ended(137, "OOMKilled", 55))
    finding = found(seen)["container-out-of-memory"]
    assert finding.decision is Decision.FAIL
    assert "its memory limit is 2Gi" in finding.summary
    assert finding.since == at(55)


def test_oom_killed_with_another_exit_code_is_an_older_event_and_not_the_end():
    assert "container-out-of-memory" not in ids(broken(state="running", restarts=1, last=ended(1, "OOMKilled")))


def test_memory_explains_the_loop_of_the_same_container():
    seen = broken(state="waiting", reason="CrashLoopBackOff", restarts=4, last=ended(137, "OOMKilled"))
    assert ids(seen) == ["container-out-of-memory"]


def test_the_injected_init_containers_memory_is_told_as_such():
    seen = broken("wait-gcs-ready", phase="Pending", state="waiting", restarts=1, last=ended(137, "OOMKilled"))
    assert "KubeRay gives this init container 256Mi" in found(seen)["container-out-of-memory"].summary


def test_a_pod_on_its_way_out_has_no_faults_of_its_own():
    seen = broken(state="terminated", terminated=ended(137, "OOMKilled"), last=ended(137, "OOMKilled"))
    leaving = replace(seen.pods[2], deleting_since=at(50))
    assert "container-out-of-memory" not in ids(replace(seen, pods=(*seen.pods[:2], leaving)))


def test_a_training_may_run_on_without_its_autoscaler():
    ill = container("autoscaler", ready=False, state="waiting", reason="CrashLoopBackOff", restarts=5, last=ended(1))
    pod = replace(head(), containers=(*head().containers, ill))
    finding = found(snapshot(pods=(pod, worker(1), worker(2))))["crash-loop"]
    assert finding.decision is Decision.WAIT
    assert "a training may still run" in finding.summary


def test_a_hook_that_fails_is_named_and_not_the_loop_that_it_makes():
    seen = broken(state="waiting", reason="CrashLoopBackOff", restarts=2, last=ended(1))
    assert "crash-loop" in ids(seen)
    told = event("FailedPostStartHook", "PostStartHook failed", about=seen.pods[-1])
    finding = found(replace(seen, events=(told,)))["container-cannot-start"]
    assert "postStart hook" in finding.summary
    assert "crash-loop" not in ids(replace(seen, events=(told,)))
