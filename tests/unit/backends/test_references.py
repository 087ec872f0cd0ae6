"""What a manifest needs to find, and which changes concern a cluster."""

from __future__ import annotations

import pytest

from rayflight.backends.kube_references import references
from rayflight.backends.kube_topics import concerns, topics
from rayflight.kube.resources import CLAIMS, CONFIG_MAPS, PRIORITY_CLASSES, SECRETS, SERVICE_ACCOUNTS

POD = {
    "serviceAccountName": "sa",
    "priorityClassName": "urgent",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "secret": {"secretName": "keys"}},
        {"name": "c", "configMap": {"name": "perhaps", "optional": True}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "both"}}]}},
    ],
    "containers": [
        {
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "id"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "password"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "no", "key": "x", "optional": True}}},
                {"name": "D", "value": "plain"},
            ],
            "envFrom": [{"secretRef": {"name": "env"}}, {"configMapRef": {"name": "not", "optional": True}}],
        }
    ],
}


def test_each_object_stands_once_with_all_keys_that_are_read():
    worker = {"template": {"spec": POD}}
    found = references({"spec": {"headGroupSpec": {"template": {"spec": {}}}, "workerGroupSpecs": [worker, worker]}})
    assert {(item.resource, item.name): item.keys for item in found} == {
        (SERVICE_ACCOUNTS, "sa"): frozenset(),
        (PRIORITY_CLASSES, "urgent"): frozenset(),
        (SECRETS, "pull"): frozenset(),
        (CLAIMS, "data"): frozenset(),
        (SECRETS, "keys"): frozenset(),
        (CONFIG_MAPS, "both"): frozenset(),
        (SECRETS, "s3"): frozenset({"id", "password"}),
        (SECRETS, "env"): frozenset(),
    }
    assert len(found) == 8


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ("rf-train-abc-a1", True),
        ("rf-train-abc-a1-head-x1", True),
        ("rf-train-abc-a1-gpu-worker-x1", True),
        ("raycluster-rf-train-abc-a1-12345", True),
        ("rf-train-abc-a10", False),
        ("rf-train-abc-a10-head-x1", False),
        ("other", False),
    ],
)
def test_events_of_vanished_pods_are_known_by_name(about: str, expected: bool):
    event_of = concerns("events", "rf-train-abc-a1")
    assert event_of is not None
    assert event_of(about) == expected


def test_pod_names_of_long_clusters_are_cut_and_still_known():
    cluster = "x" * 53
    event_of = concerns("events", cluster)
    assert event_of is not None
    assert event_of("x" * 50 + "head-12345")


def test_a_heartbeat_of_a_node_is_no_change():
    trim = topics("ns")["nodes"].trim
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}
    node = {"metadata": {"name": "n", "annotations": {"a": "b"}}, "status": {"conditions": [condition], "images": [1]}}
    assert trim(node) == {
        "metadata": {"name": "n"},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_events_about_what_is_no_part_of_a_cluster_are_not_kept():
    trim = topics("ns")["events"].trim
    assert trim({"metadata": {"name": "e"}, "involvedObject": {"kind": "Deployment", "name": "d"}}) is None
