"""What the CUDA driver can really do with this process's first device: context, memory, copies that are checked.

Uses libcuda alone, no package. Run by ``child.in_child``: its context goes with the process, whatever happens.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

LIBRARY = "libcuda.so.1"
_BLOCK = 32 * 2**20
_PATTERN = 2**20
_ROUNDS = 5
_MAJOR, _MINOR = 75, 76  # cuda.h, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class CudaError(Exception):
    """One call's refusal."""


class _Cuda:
    """The library, loaded. Raises OSError where it is not there."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name, None)
        if function is None:
            raise CudaError(f"{name} is not in the driver's library")
        code = function(*arguments)
        if code:
            raise CudaError(f"{self._text('cuGetErrorString', code)} ({self._text('cuGetErrorName', code)}, {name})")

    def _text(self, name: str, code: int) -> str:
        text = c_char_p()
        if getattr(self._library, name)(c_int(code), byref(text)) or not text.value:
            return f"code {code}"
        return text.value.decode(errors="replace")

    def attribute(self, device: c_int, which: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), c_int(which), device)
        return value.value


def measure(library: str = LIBRARY, block: int = _BLOCK) -> dict[str, Any]:
    """``{ok, error, ...}``; ``ok`` None means: there is no such library here. Speeds in gigabytes per second."""
    facts: dict[str, Any] = {"ok": False, "error": None}
    try:
        cuda = _Cuda(library)
    except OSError:
        return {"ok": None, "error": f"{library} is not in the container"}
    try:
        device = _describe(cuda, facts)
        context = c_void_p()
        cuda.call("cuDevicePrimaryCtxRetain", byref(context), device)
        try:
            cuda.call("cuCtxSetCurrent", context)
            _memory(cuda, facts)
            _copy(cuda, facts, block)
        finally:
            cuda.call("cuDevicePrimaryCtxRelease_v2", device)
    except CudaError as error:
        facts["error"] = str(error)
    facts["ok"] = facts["error"] is None
    return facts


def _describe(cuda: _Cuda, facts: dict[str, Any]) -> c_int:
    cuda.call("cuInit", c_uint(0))
    version, count, device = c_int(), c_int(), c_int()
    cuda.call("cuDriverGetVersion", byref(version))
    facts["driver_cuda"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    cuda.call("cuDeviceGetCount", byref(count))
    facts["devices"] = count.value
    cuda.call("cuDeviceGet", byref(device), c_int(0))
    name, uuid = ctypes.create_string_buffer(96), ctypes.create_string_buffer(16)
    cuda.call("cuDeviceGetName", name, c_int(96), device)
    cuda.call("cuDeviceGetUuid_v2", uuid, device)
    facts["name"] = name.value.decode(errors="replace")
    facts["uuid"] = _uuid(uuid.raw)
    facts["capability"] = f"{cuda.attribute(device, _MAJOR)}.{cuda.attribute(device, _MINOR)}"
    return device


def _uuid(raw: bytes) -> str:
    """The digits as NVML writes them, without its prefix ``GPU-`` or ``MIG-``."""
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _memory(cuda: _Cuda, facts: dict[str, Any]) -> None:
    free, total = c_size_t(), c_size_t()
    cuda.call("cuMemGetInfo_v2", byref(free), byref(total))
    facts["memory_free_bytes"], facts["memory_total_bytes"] = free.value, total.value


def _copy(cuda: _Cuda, facts: dict[str, Any], block: int) -> None:
    """To the device and back through pinned memory; every byte must come back. The best of some rounds counts."""
    there, back, memory = c_void_p(), c_void_p(), c_ulonglong()
    try:
        cuda.call("cuMemHostAlloc", byref(there), c_size_t(block), c_uint(0))
        cuda.call("cuMemHostAlloc", byref(back), c_size_t(block), c_uint(0))
        cuda.call("cuMemAlloc_v2", byref(memory), c_size_t(block))
        pattern = os.urandom(min(_PATTERN, block))
        sent = (pattern * (block // len(pattern) + 1))[:block]
        ctypes.memmove(there, sent, block)
        to_device = _seconds(cuda, "cuMemcpyHtoD_v2", memory, there, c_size_t(block))
        to_host = _seconds(cuda, "cuMemcpyDtoH_v2", back, memory, c_size_t(block))
        facts["to_device_gbps"] = round(block / to_device / 1e9, 3)
        facts["to_host_gbps"] = round(block / to_host / 1e9, 3)
        received = ctypes.string_at(back, block)
        if received != sent:
            first = next(at for at, (a, b) in enumerate(zip(sent, received, strict=True)) if a != b)
            facts["error"] = f"copied {block} bytes to the device and back: byte {first} came back otherwise"
    finally:
        for name, given in (("cuMemFree_v2", memory), ("cuMemFreeHost", there), ("cuMemFreeHost", back)):
            if given.value:
                cuda.call(name, given)


def _seconds(cuda: _Cuda, name: str, *arguments: Any) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        cuda.call(name, *arguments)
        best = min(best, time.perf_counter() - begin)
    return max(best, 1e-9)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure()) + "\n")
