"""What every cluster carries, and what is refused before it is sent."""

import json

import pytest

from rayflight import labels
from rayflight.errors import InvalidSpec
from rayflight.manifests import build, build_cluster, dropped_fields, token_secret
from rayflight.specs import ClusterSpec
from tests.golden_manifests import OWNER

SPEC = ClusterSpec.parse({"image": "train:1", "groups": [{"name": "gpu", "gpus": 1}]})


def test_owner_and_hash_stand_on_cluster_and_pods_and_cannot_be_forged():
    spec = SPEC.replace(labels={labels.RUN: "forged"}, annotations={labels.OWNER: "forged"})
    cluster = build(spec, OWNER, "ns")
    assert json.loads(cluster["metadata"]["annotations"][labels.OWNER]) == OWNER.to_dict()
    expected = {**OWNER.labels(), labels.SPEC_HASH: spec.hash}
    pods = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for each in (cluster, *(pod["template"] for pod in pods)):
        assert expected.items() <= each["metadata"]["labels"].items()


def test_building_twice_gives_equal_objects_that_share_nothing():
    first, second = build(SPEC, OWNER, "ns"), build(SPEC, OWNER, "ns")
    assert first == second
    first["spec"]["headGroupSpec"]["template"]["spec"].clear()
    assert build(SPEC, OWNER, "ns") == second


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a" * 54, "it has 54 characters, KubeRay takes at most 53"),
        ("1a", "it must start with a letter"),
        ("a_b", "hold only a-z, 0-9 and '-'"),
        ("a-", "not at the end"),
        ("", "it must start with a letter"),
    ],
)
def test_name_that_kuberay_would_only_answer_with_an_event_is_refused(name, sentence):
    with pytest.raises(InvalidSpec) as refused:
        build_cluster(SPEC, name=name, namespace="ns", own_labels={}, own_annotations={})
    assert sentence in str(refused.value)


def test_name_of_53_characters_is_taken():
    assert (
        build_cluster(SPEC, name="a" * 53, namespace="ns", own_labels={}, own_annotations={})["metadata"]["name"]
        == "a" * 53
    )


@pytest.mark.parametrize("path", ["/mnt/rayflight", "/data"])
def test_storage_does_not_cover_another_mount(path):
    volumes = {"volumes": [{"name": "d", "emptyDir": {}}], "volume_mounts": [{"name": "d", "mountPath": path}]}
    spec = ClusterSpec.parse({**SPEC.to_dict(), **volumes, "storage": {"claim": "c", "mount_path": path}})
    with pytest.raises(InvalidSpec, match=f"the pods mount something at {path} already"):
        build(spec, OWNER, "ns")


def test_token_in_a_raw_manifest_replaces_what_stood_there():
    pod = {
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "RAY_AUTH_MODE", "value": "disabled"}]}]}
    }
    group = {"groupName": "g", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "template": pod}
    body = {"rayVersion": "2.60.0", "headGroupSpec": {"template": pod}, "workerGroupSpecs": [group]}
    raw = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": body}
    cluster = build(ClusterSpec.parse({"raw_manifest": raw, "auth": "token"}), OWNER, "ns", token_secret="s")
    env = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    assert [variable["name"] for variable in env] == ["RAY_AUTH_MODE", "RAY_AUTH_TOKEN"]
    assert env[0]["value"] == "token"


def test_token_secret_goes_with_its_cluster():
    secret = token_secret("c", "uid-1", "ns", "abc", OWNER.labels())
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("RayCluster", "c", "uid-1")
    assert secret["stringData"] == {"auth_token": "abc"}


def test_dropped_fields_are_named_by_path():
    asked = {
        "spec": {"authOptions": {"mode": "token"}, "groups": [{"name": "a", "new": 1}, {"name": "b"}], "empty": {}}
    }
    stored = {"spec": {"groups": [{"name": "a", "added": 1}]}, "status": {}}
    assert dropped_fields(asked, stored) == ["spec.authOptions", "spec.groups[0].new", "spec.groups[1]"]
    assert dropped_fields(asked, asked) == []
