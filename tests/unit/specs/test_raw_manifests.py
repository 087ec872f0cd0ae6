"""A raw RayCluster manifest is read, checked and changed like a shape."""

from typing import Any

import pytest

from rayflight.errors import InvalidSpec
from rayflight.specs import ClusterSpec, resized


def raw(**group: Any) -> dict[str, Any]:
    limits = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}
    worker = {
        "groupName": "gpu",
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "rayStartParams": {},
        "template": {"spec": {"containers": [{"name": "w", "image": "train:1", "resources": {"limits": limits}}]}},
        **group,
    }
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "h", "image": "train:1"}]}}}
    body = {"rayVersion": "2.60.0", "headGroupSpec": head, "workerGroupSpecs": [worker]}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "mine"}, "spec": body}


def test_groups_are_read_from_the_manifest():
    spec = ClusterSpec.parse({"raw_manifest": raw(replicas=2, maxReplicas=2, numOfHosts=2)})
    (group,) = spec.groups
    assert (group.name, group.pods, group.gpus, group.gpu_resource, group.memory) == (
        "gpu",
        4,
        2,
        "nvidia.com/gpu",
        "16Gi",
    )
    assert spec.ray_version == "2.60.0"


def test_min_above_max_is_refused_for_kuberay_would_take_it():
    with pytest.raises(InvalidSpec, match="min_replicas 3 is above max_replicas 1"):
        ClusterSpec.parse({"raw_manifest": raw(minReplicas=3)})


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"kind": "RayJob", "apiVersion": "ray.io/v1"}, "must be one RayCluster"),
        ({**raw(), "apiVersion": "ray.io/v1alpha1"}, "got kind 'RayCluster', apiVersion 'ray.io/v1alpha1'"),
        ({"kind": "RayCluster", "apiVersion": "ray.io/v1"}, "raw_manifest has no spec"),
        (raw(template={"spec": {"containers": []}}), "workerGroupSpecs.0.template.spec has no containers"),
        ("RayCluster", "must be mappings in the form of a RayCluster"),
    ],
)
def test_what_is_no_raycluster_is_refused(data, sentence):
    with pytest.raises(InvalidSpec) as refused:
        ClusterSpec.parse({"raw_manifest": data})
    assert sentence in str(refused.value)


def test_fields_of_the_manifest_cannot_be_given_a_second_time():
    with pytest.raises(InvalidSpec, match="groups, image cannot stand beside raw_manifest"):
        ClusterSpec.parse({"raw_manifest": raw(), "image": "x", "groups": []})


def test_overrides_are_laid_over_and_checked():
    spec = ClusterSpec.parse(
        {
            "raw_manifest": raw(),
            "overrides": {"spec": {"workerGroupSpecs": [{"groupName": "gpu", "replicas": 0, "minReplicas": 0}]}},
        }
    )
    assert spec.worker_pods == 0
    assert spec.raw_manifest == raw()


def test_head_ports_without_dashboard_are_warned_of():
    manifest = raw()
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"name": "gcs", "containerPort": 6379}
    ]
    assert "none named dashboard" in " ".join(ClusterSpec.parse({"raw_manifest": manifest}).warnings())


def test_form_values_change_the_manifest_and_nothing_else():
    spec = resized(ClusterSpec.parse({"raw_manifest": raw()}), replicas=3, gpus=1, image="train:2")
    worker = spec.manifest()["spec"]["workerGroupSpecs"][0]
    expected = raw(replicas=3, minReplicas=3, maxReplicas=3)["spec"]["workerGroupSpecs"][0]
    container = expected["template"]["spec"]["containers"][0]
    container["image"] = "train:2"
    container["resources"]["limits"]["nvidia.com/gpu"] = "1"
    assert worker == expected
    assert (spec.worker_pods, spec.gpus) == (3, 3)
