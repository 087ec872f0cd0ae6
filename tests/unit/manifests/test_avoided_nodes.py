"""Worker pods keep away from nodes by name, beside every wish of their own; head and hash of the spec stay."""

from __future__ import annotations

from typing import Any

from rayflight.backends.kube_room import lacking
from rayflight.labels import AVOIDED
from rayflight.manifests import build
from rayflight.snapshot import capacity, kubernetes
from rayflight.specs import ClusterSpec
from tests.made_up import GPU, node
from tests.world import OWNER

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SHAPE: dict[str, Any] = {"image": "ray:2.60.0", "groups": [{"name": "gpu", "replicas": 2, "gpus": 1}]}


def built(*avoid: str, **changes: Any) -> Any:
    return build(ClusterSpec.model_validate({**SHAPE, **changes}), OWNER, "ns", avoid=avoid)


def terms(manifest: Any, group: int = 0) -> Any:
    pod = manifest["spec"]["workerGroupSpecs"][group]["template"]["spec"]
    return pod["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def away(*names: str) -> list[dict[str, Any]]:
    return [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]


def test_nodes_are_excluded_by_name_one_by_one_and_written_on_the_cluster() -> None:
    manifest = built("gpu-2", "gpu-1")
    assert terms(manifest) == [{"matchFields": away("gpu-1", "gpu-2")}]
    assert manifest["metadata"]["annotations"][AVOIDED] == "gpu-1 gpu-2"
    assert "affinity" not in manifest["spec"]["headGroupSpec"]["template"]["spec"]
    assert manifest["metadata"]["labels"] == built()["metadata"]["labels"]  # the spec's hash among them


def test_every_alternative_of_an_own_affinity_gets_it() -> None:
    one = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    two = {"matchFields": away("gpu-9")}
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [one, two]}}, "podAffinity": {"x": []}}
    manifest = built("gpu-1", affinity=own)
    assert terms(manifest) == [{**one, "matchFields": away("gpu-1")}, {"matchFields": away("gpu-9", "gpu-1")}]
    assert manifest["spec"]["workerGroupSpecs"][0]["template"]["spec"]["affinity"]["podAffinity"] == {"x": []}


def test_the_scheduler_s_arithmetic_understands_it() -> None:
    group = built("gpu-1")["spec"]["workerGroupSpecs"][0]
    pod = kubernetes.pod({"metadata": {"name": "w", "namespace": "ns", "uid": ""}, "spec": group["template"]["spec"]})
    assert [it.name for it in capacity.places(pod, [node("gpu-1", 4), node("gpu-2", 4)])] == ["gpu-2"]


def test_a_shape_that_has_no_room_without_the_avoided_nodes_is_counted() -> None:
    nodes = [node("gpu-1", 4), node("gpu-2", 1), node("gpu-3", 4, unschedulable=True), node("gpu-4", 4, conditions=())]
    assert lacking(built("gpu-9"), nodes) == []
    assert lacking(built("gpu-1"), nodes) == ["group gpu has room for 1 of 2 pods (gpu-2: 1)"]
    assert lacking(built("gpu-1", groups=[{"name": "cpu", "replicas": 2}]), [*nodes, node("cpu-1")]) == []
    small = [node("gpu-1", 4), node("gpu-2", 4, allocatable={"cpu": "8", "memory": "32Gi", GPU: "0"})]
    assert lacking(built("gpu-1"), small) == ["group gpu has room for 0 of 2 pods (no healthy node that matches)"]
