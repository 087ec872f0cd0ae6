"""A cluster is ready when every desired pod is one ALIVE Ray node of one session, and not before."""

from dataclasses import replace

import pytest

from rayflight.snapshot.model import Condition
from rayflight.snapshot.readiness import readiness
from tests.made_up import (
    GPU,
    UID,
    at,
    cluster,
    ended,
    event,
    foreign,
    gap,
    head,
    pending,
    ray,
    ray_node,
    snapshot,
    with_container,
    worker,
)
from tests.moments import moment


def waits_for(seen, **arguments):
    found = readiness(seen, **arguments)
    assert not found.ready
    return found.waiting_for


def test_a_cluster_whose_pods_are_all_alive_in_ray_is_ready():
    found = readiness(snapshot(), uid=UID)
    assert found.ready
    assert found.waiting_for == ""
    assert found.session == "session_1"
    assert found.mapped["flight-gpu-worker-1"] == "ray-worker-uid-1"


def test_kubernetes_need_not_say_ready():
    pods = tuple(replace(pod, conditions=()) for pod in snapshot().pods)
    assert readiness(snapshot(pods=pods)).ready


def test_the_operators_word_ready_is_not_believed():
    seen = snapshot(cluster=cluster(state="ready"), pods=(head(), worker(1)))
    assert "1 of 2 worker pods of group gpu" in waits_for(seen)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster": None}, "it is not there"),
        ({"cluster": None, "gaps": gap("cluster")}, "cannot be read: forbidden"),
        ({"cluster": cluster(uid="other")}, "another cluster of the same name"),
        ({"cluster": cluster(deleting_since=at(5))}, "being deleted"),
        ({"cluster": cluster(suspended=True, labels={"kueue.x-k8s.io/queue-name": "q"})}, "Kueue's queue q"),
        ({"cluster": cluster(has_status=False)}, "operator has not written a status"),
        ({"cluster": cluster(generation=2)}, "has not seen generation 2"),
        ({"pods": (), "gaps": gap("pods")}, "pods of flight cannot be read: forbidden"),
        ({"pods": (worker(1), worker(2))}, "the head pod, which does not exist yet"),
        ({"ray": None, "gaps": gap("ray", "HTTP 503")}, "the Ray dashboard: HTTP 503"),
        ({"gaps": gap("ray.nodes")}, "Ray's list of nodes: forbidden"),
    ],
)
def test_what_is_missing_is_named(changes, words):
    assert words in waits_for(snapshot(**changes), uid=UID)


def test_a_terminating_pod_is_waited_for():
    pods = (head(), worker(1), worker(2), worker(3, deleting_since=at(9)))
    assert "flight-gpu-worker-3 is terminating since 2026-12-01T10:00:09" in waits_for(snapshot(pods=pods))


def test_a_pod_of_an_earlier_cluster_of_the_same_name_does_not_count():
    pods = (head(owner_uid="earlier"), worker(1), worker(2))
    assert "belongs to an earlier cluster" in waits_for(snapshot(pods=pods))


def test_a_refused_pod_is_explained_without_the_name_that_changes_with_each_try():
    def refused(name):
        text = f'FailedCreateWorkerPod\npods "{name}" is forbidden: exceeded quota: q, used: 1'
        failure = Condition(type="ReplicaFailure", status="True", message=text)
        return waits_for(snapshot(cluster=cluster(conditions=(failure,)), pods=(head(), worker(1))))

    assert refused("w-1") == refused("w-2")
    assert "exceeded quota: q" in refused("w-1")


def test_an_unschedulable_pod_is_named_with_who_holds_the_gpus():
    seen = snapshot(
        pods=(head(), worker(1), pending(2)), foreign_pods=(foreign("busy", "gpu-1", 3), foreign("more", "gpu-2", 4))
    )
    said = waits_for(seen)
    assert said.startswith("1 of 3 pods: pod flight-gpu-worker-2 is Pending: 0/3 nodes are available")
    assert f"gpu-2 has 4 {GPU}, 4 used by team-b/more" in said
    assert f"gpu-1 has 4 {GPU}, 4 used by team-a/flight-gpu-worker-1; team-b/busy" in said


def test_a_flipping_image_error_gives_one_sentence():
    def said(reason):
        pod = worker(2, phase="Pending", conditions=())
        pod = with_container(pod, "wait-gcs-ready", state="waiting", reason=reason, message=f"{reason} text")
        return waits_for(snapshot(pods=(head(), worker(1), pod)))

    assert said("ErrImagePull") == said("ImagePullBackOff")
    assert "init container wait-gcs-ready cannot pull image registry.example/ray:2.60.0" in said("ErrImagePull")


def test_a_crashing_container_is_named_with_its_exit_code_but_no_count():
    pod = with_container(worker(2), "ray-worker", state="waiting", reason="CrashLoopBackOff", last=ended(2), restarts=7)
    said = waits_for(snapshot(pods=(head(), worker(1), pod)))
    assert "container ray-worker keeps ending with exit code 2" in said
    assert "7" not in said


def test_a_container_that_has_just_ended_is_named():
    pod = with_container(worker(2), "ray-worker", state="terminated", terminated=ended(2))
    said = waits_for(snapshot(pods=(head(), worker(1), pod)))
    assert "container ray-worker ended with exit code 2" in said


def test_a_gated_pod_is_said_to_be_gated():
    pod = worker(2, phase="Pending", node="", conditions=(), scheduling_gates=("kueue",))
    assert "is gated: kueue" in waits_for(snapshot(pods=(head(), worker(1), pod)))
    unseen = replace(pod, scheduling_gates=())
    assert "default-scheduler has not looked at it yet" in waits_for(snapshot(pods=(head(), worker(1), unseen)))


def test_a_worker_that_waits_for_the_head_is_said_to():
    pod = with_container(worker(2, phase="Pending"), "wait-gcs-ready", state="running")
    assert "init container wait-gcs-ready runs" in waits_for(snapshot(pods=(head(), worker(1), pod)))
    created = with_container(worker(2, phase="Pending"), "ray-worker", state="waiting", reason="ContainerCreating")
    assert "containers are being created" in waits_for(snapshot(pods=(head(), worker(1), created)))


def test_pods_without_an_ip_are_no_ray_nodes():
    pods = (head(), worker(1), worker(2, ip=""))
    nodes = (*ray(head(), worker(1)).nodes, ray_node(worker(2), ip=""))
    assert "worker-2 runs, but is not ALIVE" in waits_for(snapshot(pods=pods, ray=ray(nodes=nodes)))


def test_a_pulling_image_is_waited_for_in_words():
    pod = worker(2, phase="Pending", conditions=())
    pulling = event("Pulling", 'Pulling image "registry.example/ray:2.60.0"', about=pod, type="Normal")
    seen = snapshot(pods=(head(), worker(1), pod), events=(pulling,))
    assert "image still pulling" in waits_for(seen)


def test_a_running_pod_that_ray_does_not_know_is_waited_for():
    seen = snapshot(ray=ray(head(), worker(1)))
    assert waits_for(seen) == "1 of 3 pods: pod flight-gpu-worker-2 runs, but is not ALIVE in Ray yet"


def test_two_alive_ray_nodes_of_one_ip_are_not_one_to_one():
    """After a killed raylet Ray shows the old and the new node ALIVE for some seconds."""
    nodes = (*ray(head(), worker(1), worker(2)).nodes, ray_node(worker(2), id="second"))
    assert "worker-2 has 2 ALIVE Ray nodes" in waits_for(snapshot(ray=ray(nodes=nodes)))


def test_the_ray_node_of_a_pod_that_is_gone_is_waited_out():
    """Ray calls the node of a force-deleted pod ALIVE for half a minute: placement could go there."""
    said = waits_for(moment("worker-pod-deleted-t023s"))
    assert said.endswith("is ALIVE, but its pod is gone")
    assert readiness(moment("worker-pod-deleted-t093s")).ready


def test_an_older_ray_node_with_the_pods_ip_is_not_the_pods():
    old = ray_node(worker(2), started_at="2026-12-01T09:00:00.000Z")
    nodes = (*ray(head(), worker(1)).nodes, old)
    assert "worker-2 runs, but is not ALIVE" in waits_for(snapshot(ray=ray(nodes=nodes)))


def test_the_pods_name_in_ray_counts_more_than_the_ip():
    """Pods on the host's network share an IP."""
    pods = tuple(replace(pod, ip="10.9.9.9") for pod in snapshot().pods)
    nodes = tuple(ray_node(pod, pod=pod.name) for pod in pods)
    assert readiness(snapshot(pods=pods, ray=ray(nodes=nodes))).ready


def test_a_ray_node_without_its_gpu_is_not_ready():
    nodes = (ray_node(head()), ray_node(worker(1)), ray_node(worker(2), resources={"CPU": 1.0}))
    assert waits_for(snapshot(ray=ray(nodes=nodes))) == "the Ray node of pod flight-gpu-worker-2 offers 0 of 1 GPUs"


def test_num_gpus_of_the_start_parameters_replaces_the_limit():
    groups = (replace(cluster().groups[0], start_params={"num-gpus": "0"}),)
    nodes = tuple(ray_node(pod, resources={}) for pod in snapshot().pods)
    assert readiness(snapshot(cluster=cluster(groups=groups), ray=ray(nodes=nodes))).ready


def test_asked_groups_override_the_stored_ones():
    assert "1 of 3 worker pods" in waits_for(snapshot(), groups={"gpu": 3})


def test_the_sentence_is_the_same_a_minute_later():
    seen = snapshot(pods=(head(), worker(1), pending(2)))
    assert waits_for(seen) == waits_for(replace(seen, taken_at=at(600)))


@pytest.mark.parametrize("name", ["healthy-t027s", "healthy-t060s", "worker-pod-deleted-t000"])
def test_recorded_healthy_moments_are_ready(name):
    assert readiness(moment(name)).ready


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("too-few-gpus-t046s", "3 of 6 pods"),
        ("quota-of-one-gpu-t044s", "exceeded quota: gpu-quota"),
        ("image-not-found-t040s", "cannot pull image"),
        ("worker-bad-flag-t066s", "ray-worker"),
        ("head-pod-deleted-t021s", "is terminating since"),
        ("head-pod-deleted-t056s", "is not ALIVE in Ray yet"),
        ("operator-paused-t041s", "operator has not written a status"),
        ("operator-paused-t015s", "1 of 2 worker pods"),
    ],
)
def test_recorded_broken_moments_are_not_ready(name, words):
    assert words in waits_for(moment(name))
