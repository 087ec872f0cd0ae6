"""What a trigger form changes in a shape: number of worker pods, GPUs of each, image."""

import pytest

from rayflight.errors import InvalidSpec
from rayflight.specs import ClusterSpec, resized

GPU = {"name": "gpu", "replicas": 2, "gpus": 1}
SPEC = ClusterSpec.parse({"image": "train:1", "groups": [GPU, {"name": "data", "image": "data:1"}]})


def test_the_only_group_with_gpus_is_meant():
    changed = resized(SPEC, replicas=4, gpus=2)
    assert (changed.group("gpu").pods, changed.gpus, changed.group("data")) == (4, 8, SPEC.group("data"))


def test_a_range_stays_and_is_checked():
    elastic = ClusterSpec.parse({"image": "x", "groups": [{**GPU, "min_replicas": 1, "max_replicas": 3}]})
    assert resized(elastic, replicas=3).group("gpu").most == 3
    with pytest.raises(InvalidSpec, match="replicas 9 is not between min_replicas 1 and max_replicas 3"):
        resized(elastic, replicas=9)


def test_the_image_holds_for_all_pods():
    changed = resized(SPEC, image="train:2")
    assert {changed.image_of(pod) for pod in (changed.head, *changed.groups)} == {"train:2"}


def test_two_candidates_are_not_guessed_between():
    spec = ClusterSpec.parse({"image": "x", "groups": [GPU, {**GPU, "name": "other"}]})
    with pytest.raises(InvalidSpec, match="gpu, other could all be meant"):
        resized(spec, replicas=1)
    assert resized(spec, replicas=1, group="other").worker_pods == 3


def test_an_unknown_group_is_refused_by_name():
    with pytest.raises(InvalidSpec, match="Unknown group 'tpu': the shape has gpu, data"):
        resized(SPEC, replicas=1, group="tpu")


def test_no_change_gives_the_same_spec():
    assert resized(SPEC) is SPEC


def test_storage_of_job_and_shape_must_be_one():
    stored = SPEC.with_storage(ClusterSpec.parse({**SPEC.to_dict(), "storage": {"claim": "a"}}).storage)
    assert stored.storage is not None
    assert stored.with_storage(None) is stored
    other = ClusterSpec.parse({**SPEC.to_dict(), "storage": {"claim": "b"}}).storage
    with pytest.raises(InvalidSpec, match="Two storages"):
        stored.with_storage(other)
