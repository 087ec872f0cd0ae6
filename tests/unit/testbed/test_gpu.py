"""Names and the health switch of the testbed's simulated GPUs."""

import re

import pytest

from testbed import gpu
from testbed.errors import TestbedError
from testbed.paths import Layout


@pytest.fixture
def layout(tmp_path):
    return Layout(state=tmp_path / "state", run=tmp_path / "run", cache=tmp_path / "cache")


def test_uuids_are_those_of_the_device_plugin():
    # devices_test.go of the plugin holds the same value.
    assert gpu.uuid("gpu-1", 0) == "GPU-sim-077b1e6a-a40c-24d1-4ce0-88597861c526"


def test_a_uuid_is_found_again():
    assert gpu.find(gpu.uuid("gpu-2", 3)) == ("gpu-2", 3)


def test_a_foreign_uuid_is_refused():
    with pytest.raises(TestbedError, match="no GPU of the testbed has the UUID GPU-1234"):
        gpu.find("GPU-1234")


def test_labels_are_valid_and_say_simulated():
    assert "SIMULATED" in gpu.LABELS["nvidia.com/gpu.product"]
    assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value) for value in gpu.LABELS.values())


def test_a_gpu_made_sick_is_sick_until_it_is_healed(layout):
    gpu.make_unhealthy(layout, "gpu-1", 2)
    assert [gpu.is_healthy(layout, "gpu-1", index) for index in range(4)] == [True, True, False, True]
    gpu.make_healthy(layout, "gpu-1", 2)
    assert gpu.is_healthy(layout, "gpu-1", 2)


def test_healing_a_healthy_gpu_changes_nothing(layout):
    assert gpu.make_healthy(layout, "gpu-2", 0) == gpu.uuid("gpu-2", 0)


@pytest.mark.parametrize(("node", "index"), [("cpu-1", 0), ("gpu-1", 4), ("gpu-1", -1)])
def test_a_gpu_that_does_not_exist_is_refused(layout, node, index):
    with pytest.raises(TestbedError):
        gpu.make_unhealthy(layout, node, index)
