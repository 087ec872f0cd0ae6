"""From a shape to process trees: the same shape that makes pods elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayflight.backends import local_plan
from rayflight.errors import InvalidSpec
from rayflight.manifests import build
from rayflight.specs import ClusterSpec, load_cluster
from tests.world import OWNER

GIB = 1024**3
SHAPE = {
    "image": "ray:2.60.0",
    "simulated": True,
    "env": {"DATA": "/data"},
    "groups": [
        {"name": "gpu", "replicas": 2, "gpus": 1, "cpu": "1500m", "memory": "4Gi"},
        {"name": "data", "replicas": 1, "cpu": 2, "ray_start_params": {"resources": '{"disk": 1}'}},
    ],
}


def spec(**changes: object) -> ClusterSpec:
    return ClusterSpec.parse({**SHAPE, **changes}, which="a shape")


def trees(shape: ClusterSpec, shared_memory: int | None = 64 * GIB):
    return local_plan.trees(build(shape, OWNER, "default"), "/tmp/rf-1", shared_memory=shared_memory)


def test_each_pod_is_a_tree_with_a_folder_of_its_own():
    made = trees(spec())
    assert [(tree.role, tree.group) for tree in made] == [
        ("head", "headgroup"), ("worker", "gpu"), ("worker", "gpu"), ("worker", "data"),
    ]  # fmt: skip
    assert len({tree.folder for tree in made}) == len({tree.name for tree in made}) == 4
    assert all(tree.folder.startswith("/tmp/rf-1/") for tree in made)


def test_the_head_offers_nothing_and_workers_what_kuberay_would_offer():
    assert [(tree.cpus, tree.gpus) for tree in trees(spec())] == [(0, 0), (2, 1), (2, 1), (2, 0)]


def test_variables_and_start_parameters_reach_their_trees():
    made = trees(spec())
    assert {tree.environment["DATA"] for tree in made} == {"/data"}
    assert made[3].parameters == {"resources": '{"disk": 1}'}
    assert "num-gpus" not in made[0].parameters, "what the tree sets itself is given once"


def test_object_stores_fit_into_shared_memory_together():
    roomy, tight = trees(spec()), trees(spec(), shared_memory=1 * GIB)
    assert roomy[1].object_store == int(4 * GIB * 0.3)
    assert sum(tree.object_store for tree in tight) <= 1 * GIB
    assert min(tree.object_store for tree in trees(spec(), shared_memory=1024)) == 80 * 1024**2


def test_a_raw_manifest_flies_as_well():
    made = trees(load_cluster("raw-2x1"))
    assert [(tree.role, tree.gpus, tree.cpus) for tree in made] == [("head", 0, 0), ("worker", 1, 8), ("worker", 1, 8)]


def test_gpus_that_are_not_there_are_refused_and_simulated_ones_are_not():
    with pytest.raises(InvalidSpec, match="asks for 2, nvidia-smi lists 1"):
        local_plan.refuse(spec(simulated=False), ["GPU-1"])
    local_plan.refuse(spec(simulated=False), ["GPU-1", "GPU-2"])
    local_plan.refuse(spec(), [])


def test_a_volume_claim_is_refused():
    with pytest.raises(InvalidSpec, match="no volume claims"):
        local_plan.refuse(spec(storage={"claim": "checkpoints"}), [])


def test_what_only_kubernetes_can_do_is_named():
    (told,) = local_plan.warnings(spec(queue="team", autoscaler={}))
    assert "queue" in told
    assert "autoscaler" in told
    assert not list(local_plan.warnings(spec()))


def test_the_plan_gives_every_process_the_base_variables():
    tree = replace(trees(spec())[1], environment={"DATA": "/data", "HOME": "/own"})
    assert local_plan.as_dict(tree, {"HOME": "/home", "PATH": "/bin"})["environment"] == {
        "HOME": "/own", "PATH": "/bin", "DATA": "/data",
    }  # fmt: skip
