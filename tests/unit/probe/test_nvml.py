"""What NVML says of each device, against a fake library that returns every code that NVML documents."""

from __future__ import annotations

import pytest

from rayflight.probe import nvml
from rayflight.probe.child import in_child
from rayflight.probe.machine import describe
from rayflight.probe.nvml import CODES

ONE, TWO = (f"GPU-0000000{number}-aaaa-bbbb-cccc-dddddddddddd" for number in (0, 1))


@pytest.fixture
def read(steer, fake_libraries):
    return lambda: nvml.read(str(fake_libraries / nvml.LIBRARY))


def test_every_fact_of_every_device_is_read(read, steer):
    found = read()
    assert (found["ok"], found["driver"], found["cuda"]) == (True, "550.54.15", "12.4")
    assert [device["uuid"] for device in found["devices"]] == [ONE, TWO]
    device = found["devices"][1]
    assert (device["index"], device["name"], device["memory_mib"]) == (1, "NVIDIA A100-SXM4-80GB", 81920)
    assert device["memory"] == {"total_bytes": 80 * 2**30, "free_bytes": 80 * 2**30}
    assert device["ecc"] == {"enabled": True, "volatile_uncorrected": 0, "aggregate_uncorrected": 0}
    assert device["remapped_rows"] == {"uncorrectable": 0, "pending": False, "failure": False}
    assert (device["temperature_c"], device["power_w"], device["power_limit_w"]) == (35, 62.5, 400.0)
    assert device["nvlink"] == {"up": 12, "down": 0}
    assert device["pcie"] == {"generation": 4, "generation_max": 4, "width": 16, "width_max": 16}
    assert (device["throttled_by"], device["processes"], device["mig_mode"]) == ([], [], False)
    assert (device["faults"], device["refused"]) == ({}, {})
    assert "mig" not in device


def test_a_sick_device_says_what_it_has(read, steer):
    steer("ecc_volatile.1=2", "remap_pending.1=1", "throttle.1=0x48", "links_down.1=3", "pcie_width.1=8",
          "processes.1=2", "used.1=2147483648")  # fmt: skip
    healthy, sick = read()["devices"]
    assert (healthy["ecc"]["volatile_uncorrected"], healthy["processes"]) == (0, [])
    assert sick["ecc"]["volatile_uncorrected"] == 2
    assert sick["remapped_rows"]["pending"] is True
    assert sick["throttled_by"] == ["hardware slowdown", "thermal slowdown by hardware"]
    assert sick["nvlink"] == {"up": 9, "down": 3}
    assert sick["pcie"]["width"] == 8
    assert sick["processes"] == [{"pid": pid, "memory_bytes": 2**30} for pid in (4242, 4243)]
    assert sick["memory"]["free_bytes"] == 78 * 2**30


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_at_the_start_is_named_with_its_call(read, steer, code):
    steer(f"nvmlInit_v2={code}")
    found = read()
    assert (found["ok"], found["code"], found["devices"]) == (False, code, [])
    assert f"(NVML_ERROR_{CODES[code]}, nvmlInit_v2)" in found["error"]


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_of_one_fact_leaves_the_others_readable(read, steer, code):
    steer(f"nvmlDeviceGetTemperature.1={code}")
    found = read()
    assert [device["temperature_c"] for device in found["devices"]] == [35, None]
    device = found["devices"][1]
    assert device["power_w"] == 62.5
    named = f"(NVML_ERROR_{CODES[code]}, nvmlDeviceGetTemperature)"
    if CODES[code] in ("NOT_SUPPORTED", "FUNCTION_NOT_FOUND"):
        assert (found["ok"], device["faults"], device["refused"]) == (True, {}, {})
    elif CODES[code] == "NO_PERMISSION":
        assert (found["ok"], device["faults"]) == (True, {})
        assert named in device["refused"]["temperature_c"]
    else:
        assert found["ok"] is False
        assert named in device["faults"]["temperature_c"]
        assert "device 1: " in found["error"]


@pytest.mark.parametrize("code", [4, 15, 28, 999])
def test_a_device_without_a_handle_is_listed_with_its_fault(read, steer, code):
    steer(f"nvmlDeviceGetHandleByIndex_v2.0={code}")
    found = read()
    assert [device["uuid"] for device in found["devices"]] == [None, TWO]
    assert CODES[code] in found["devices"][0]["faults"]["handle"]


def test_mig_instances_stand_with_their_gpu_and_not_more_than_there_are(read, steer):
    steer("mig.0=2")
    first, second = read()["devices"]
    assert (first["mig_mode"], first["mig"]) == (True, ["MIG-0-0", "MIG-0-1"])
    assert (second["mig_mode"], "mig" in second) == (False, False)


def test_a_device_without_nvlink_or_ecc_has_none(read, steer):
    steer("links=0", "nvmlDeviceGetEccMode=3")
    device = read()["devices"][0]
    assert (device["nvlink"], device["ecc"], device["faults"]) == (None, None, {})


def test_a_driver_that_hangs_costs_its_deadline_and_says_so(steer):
    steer("hang=nvmlInit_v2")
    assert in_child("nvml", 0.5) == {"ok": False, "error": "did not answer within 0.5 s"}


def test_a_driver_that_crashes_is_named_by_its_signal(steer):
    steer("crash=nvmlDeviceGetCount_v2")
    found = in_child("nvml", 20)
    assert found["ok"] is False
    assert "ended with SIGABRT and no result" in found["error"]


def test_without_the_library_nothing_is_claimed():
    found = nvml.read("libnvidia-ml-not-there.so.1")
    assert found["ok"] is None
    assert "is not in the container" in found["error"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_rank_counts_the_devices_that_its_container_sees(steer, count):
    steer(f"count={count}")
    facts = describe()
    assert len(facts["devices"]) == count
    assert "devices_error" not in facts


def test_a_rank_quotes_the_drivers_refusal(steer):
    steer("nvmlInit_v2=18")
    facts = describe()
    assert facts["devices"] == []
    assert "LIB_RM_VERSION_MISMATCH" in facts["devices_error"]
    assert facts["nvml"]["ok"] is False
