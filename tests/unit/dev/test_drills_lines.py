"""Each object of the API becomes one line in which a sign can be found."""

from __future__ import annotations

import re

from dev.drills.lines import line
from dev.drills.observer import Observer, Sight, within
from dev.drills.table import read

SIGNS = {drill.name: drill.sign for drill in read()}


def pod(name: str = "rf-x-gpu-worker-abcde", **status) -> dict:
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": "gpu-1"}, "status": status}


def test_an_event_names_its_object_reason_and_message_on_one_line():
    event = {
        "kind": "Event",
        "metadata": {"name": "x"},
        "involvedObject": {"kind": "Pod", "name": "rf-x-worker"},
        "reason": "FailedScheduling",
        "message": "0/3 nodes are available:\n 1 node(s) had untolerated taint {a: b}",
    }
    assert re.search(SIGNS["taint"], line(event))


def test_a_container_that_was_killed_for_memory_is_told():
    state = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    text = line(pod(phase="Running", containerStatuses=[{"name": "ray-worker", "restartCount": 1, "lastState": state}]))
    assert re.search(SIGNS["container-oom"], text)
    assert "restarts=1" in text


def test_a_device_that_is_sick_shows_in_its_pod():
    device = {"resourceID": "GPU-1", "health": "Unhealthy"}
    status = {"name": "w", "allocatedResourcesStatus": [{"name": "gpu", "resources": [device]}]}
    assert "GPU-1 Unhealthy" in line(pod(containerStatuses=[status]))


def test_a_pod_that_is_well_shows_no_sign():
    well = pod(
        phase="Running",
        conditions=[{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
        containerStatuses=[{"name": "ray-worker", "state": {"running": {}}}],
    )
    assert [name for name, sign in SIGNS.items() if sign and re.search(sign, line(well))] == []


def test_a_node_that_nobody_hears_of_is_told_with_its_gpus():
    node = {
        "kind": "Node",
        "metadata": {"name": "gpu-1"},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "allocatable": {"nvidia.com/gpu": "4"}},
    }
    assert re.search(SIGNS["node-not-ready"], line(node))
    assert "unschedulable gpu=4" in line(node)


def test_an_object_that_is_deleted_and_one_that_is_gone_differ():
    item = pod()
    item["metadata"]["deletionTimestamp"] = "2026-12-01T10:00:00Z"
    assert line(item).endswith(" deleting")
    assert line(item, gone=True).endswith(" gone")


def test_the_first_sign_is_the_earliest_since_the_fault_in_that_namespace():
    observer = Observer(kubeconfig=None)  # type: ignore[arg-type]
    observer.seen = [
        Sight(1, "mine", "Pod a-head-b deleting"),
        Sight(9, "mine", "Pod a-head-b gone"),
        Sight(5, "other", "Pod c-head-d gone"),
        Sight(7, "mine", "Pod a-head-b deleting"),
    ]
    assert observer.first(SIGNS["head-pod-lost"], "mine", since=2) == Sight(7, "mine", "Pod a-head-b deleting")
    assert observer.first(SIGNS["head-pod-lost"], "nobody", since=0) is None


def test_only_its_own_namespace_is_watched_where_no_other_may_be():
    assert within("/apis/ray.io/v1/rayclusters", "mine") == "/apis/ray.io/v1/namespaces/mine/rayclusters"
    assert within("/api/v1/nodes", "mine") == "/api/v1/nodes"
    assert within("/api/v1/pods", "") == "/api/v1/pods"
