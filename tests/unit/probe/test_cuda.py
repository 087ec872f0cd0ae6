"""What the CUDA driver can do, against a fake library: memory, checked copies, and everything given back."""

from __future__ import annotations

import ctypes

import pytest

from rayflight.probe import cuda
from rayflight.probe.child import in_child

CALLS = ["cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetUuid_v2", "cuDevicePrimaryCtxRetain",
         "cuCtxSetCurrent", "cuMemGetInfo_v2", "cuMemHostAlloc", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",
         "cuDevicePrimaryCtxRelease_v2"]  # fmt: skip


LEFT = ("fake_contexts", "fake_blocks")


@pytest.fixture
def library(steer, fake_libraries):
    path = str(fake_libraries / cuda.LIBRARY)
    for name in LEFT:
        ctypes.c_int.in_dll(ctypes.CDLL(path), name).value = 0
    return path


def left(library):
    return [ctypes.c_int.in_dll(ctypes.CDLL(library), name).value for name in LEFT]


def test_the_device_is_described_and_its_copies_are_measured(steer, library):
    steer("cuda_uuid=1", "major=9")
    found = cuda.measure(library)
    assert (found["ok"], found["error"]) == (True, None)
    assert (found["name"], found["capability"], found["driver_cuda"]) == ("NVIDIA A100-SXM4-80GB", "9.0", "12.4")
    assert found["uuid"] == "00000001-aaaa-bbbb-cccc-dddddddddddd"
    assert found["memory_free_bytes"] == found["memory_total_bytes"] == 80 * 2**30
    assert found["to_device_gbps"] > 0
    assert found["to_host_gbps"] > 0
    assert left(library) == [0, 0]


def test_a_byte_that_comes_back_otherwise_is_a_fault(steer, library):
    steer("flip=12345")
    found = cuda.measure(library)
    assert found["ok"] is False
    assert "byte 12345 came back otherwise" in found["error"]
    assert left(library) == [0, 0]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_is_named_and_what_was_held_is_given_back(steer, library, call):
    steer(f"{call}=999")
    found = cuda.measure(library)
    assert found["ok"] is False
    assert found["error"] == f"unknown error (CUDA_ERROR_UNKNOWN, {call})"
    if "Release" not in call:
        assert left(library) == [0, 0]


def test_a_code_without_a_name_is_shown_as_a_number(steer, library):
    steer("cuInit=123")
    assert cuda.measure(library)["error"] == "code 123 (code 123, cuInit)"


@pytest.mark.parametrize("call", ["cuInit", "cuDevicePrimaryCtxRetain", "cuMemcpyDtoH_v2"])
def test_a_driver_that_hangs_costs_its_deadline(steer, call):
    steer(f"hang={call}")
    assert in_child("cuda", 0.7) == {"ok": False, "error": "did not answer within 0.7 s"}


def test_without_the_library_nothing_is_claimed():
    assert cuda.measure("libcuda-not-there.so.1")["ok"] is None
