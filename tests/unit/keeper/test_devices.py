"""Real GPUs are given to one cluster at a time, all that it needs or none."""

from __future__ import annotations

from rayflight.keeper.devices import Devices

GPUS = ["GPU-a", "GPU-b", "GPU-c"]


def test_two_clusters_never_hold_one_device(tmp_path):
    first, second = Devices(tmp_path), Devices(tmp_path)
    assert first.take(2, GPUS) == ["GPU-a", "GPU-b"]
    assert second.take(1, GPUS) == ["GPU-c"]


def test_too_few_are_none_and_keep_nobody_waiting(tmp_path):
    first, second, third = Devices(tmp_path), Devices(tmp_path), Devices(tmp_path)
    first.take(2, GPUS)
    assert second.take(2, GPUS) == []
    assert third.take(1, GPUS) == ["GPU-c"]


def test_a_device_is_free_again_when_its_holder_is_gone(tmp_path):
    first = Devices(tmp_path)
    first.take(3, GPUS)
    del first
    assert Devices(tmp_path).take(3, GPUS) == GPUS
