"""The hash of a spec says whether two clusters were asked for in the same way."""

import json

import pytest

from rayflight.specs import ClusterSpec, load_cluster, shape_names

SHAPE = {"image": "train:1", "groups": [{"name": "gpu", "gpus": 1}]}


@pytest.mark.parametrize("name", ["gpu-2x1", "gpu-elastic", "raw-2x1", "testbed-2x1"])
def test_shape_survives_the_way_through_xcom(name):
    spec = load_cluster(name)
    back = ClusterSpec.parse(json.loads(json.dumps(spec.to_dict())))
    assert back == spec
    assert back.hash == spec.hash


def test_defaults_written_out_do_not_change_the_hash():
    spelled = {"image": "train:1", "auth": "disabled", "groups": [{"name": "gpu", "gpus": 1, "spread": "preferred"}]}
    assert ClusterSpec.parse(spelled).hash == ClusterSpec.parse(SHAPE).hash


def test_any_change_changes_the_hash():
    spec = ClusterSpec.parse(SHAPE)
    others = [
        spec.replace(image="train:2"),
        spec.replace(env={"A": "1"}),
        spec.replace(auth="token", ray_version="2.60.0"),
    ]
    assert len({spec.hash, *(other.hash for other in others)}) == 4


def test_every_shipped_shape_is_checked_here():
    assert shape_names() == ["gpu-2x1", "gpu-elastic", "raw-2x1", "testbed-2x1"]
