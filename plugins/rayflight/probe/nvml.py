"""What the NVIDIA driver says of each device that this container sees, read through libnvidia-ml without a package.

Reads only. Run by ``child.in_child``: a driver that hangs or crashes takes this process with it and nothing else.
A fact that NVML could not give stands under ``faults`` with NVML's own code, one that it keeps from this user under
``refused``; what a device does not support is None.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96  # bytes; NVML's own constants for names and UUIDs are 80 and 96
_UNCORRECTED, _VOLATILE, _AGGREGATE = 1, 0, 1
_GPU_SENSOR = 0
_MAX_LINKS = 36
_INSUFFICIENT_SIZE = 7
_LIBRARY_MISSING = 12
_NO_PERMISSION = 4
_ABSENT = (3, 13)  # not supported by this device; not in this library
_NOT_AVAILABLE = 2**64 - 1

# nvml.h, nvmlReturn_t
CODES = {
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    5: "ALREADY_INITIALIZED",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    8: "INSUFFICIENT_POWER",
    9: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    11: "IRQ_ISSUE",
    12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    19: "IN_USE",
    20: "MEMORY",
    21: "NO_DATA",
    22: "VGPU_ECC_NOT_SUPPORTED",
    23: "INSUFFICIENT_RESOURCES",
    24: "FREQ_NOT_SUPPORTED",
    25: "ARGUMENT_VERSION_MISMATCH",
    26: "DEPRECATED",
    27: "NOT_READY",
    28: "GPU_NOT_FOUND",
    29: "INVALID_STATE",
    30: "RESET_TYPE_NOT_SUPPORTED",
    999: "UNKNOWN",
}

# nvml.h, nvmlClocksEventReason*. Idle and the clocks that an administrator set are no faults.
THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal slowdown by software",
    0x40: "thermal slowdown by hardware",
    0x80: "power brake",
}


class NvmlError(Exception):
    """One call's refusal."""

    def __init__(self, code: int, call: str, text: str) -> None:
        super().__init__(f"{text} (NVML_ERROR_{CODES.get(code, code)}, {call})")
        self.code = code


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (("pid", c_uint), ("memory", c_ulonglong), ("gpu_instance", c_uint), ("compute_instance", c_uint))


class Nvml:
    """The library, initialised. Raises OSError where it is not there, NvmlError where it refuses."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = ctypes.CDLL(library)
        self._library.nvmlErrorString.restype = c_char_p
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> None:
        """Call by name; the first of several names that the library has is meant by ``a|b``."""
        found = next((one for one in name.split("|") if hasattr(self._library, one)), None)
        if found is None:
            raise NvmlError(13, name, "Function Not Found")
        code = getattr(self._library, found)(*arguments)
        if code:
            raise NvmlError(code, found, str((self._library.nvmlErrorString(code) or b"").decode(errors="replace")))

    def number(self, name: str, *arguments: Any, kind: Any = c_uint) -> int:
        """The one number that the call writes into its last argument."""
        value = kind(0)
        self.call(name, *arguments, byref(value))
        return int(value.value)

    def pair(self, name: str, *arguments: Any) -> tuple[int, int]:
        """Two numbers."""
        first, second = c_uint(0), c_uint(0)
        self.call(name, *arguments, byref(first), byref(second))
        return first.value, second.value

    def text(self, name: str, *arguments: Any) -> str:
        """A string."""
        buffer = ctypes.create_string_buffer(_TEXT)
        self.call(name, *arguments, buffer, c_uint(_TEXT))
        return buffer.value.decode(errors="replace")

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        """A device."""
        value = c_void_p()
        self.call(name, *arguments, byref(value))
        return value


def read(library: str = LIBRARY) -> dict[str, Any]:
    """``{ok, error, driver, cuda, devices}``; ``ok`` None means: there is no such library here."""
    try:
        nvml = Nvml(library)
    except OSError:
        return {"ok": None, "error": f"{library} is not in the container", "code": _LIBRARY_MISSING, "devices": []}
    except NvmlError as error:
        return {"ok": False, "error": str(error), "code": error.code, "devices": []}
    try:
        driver = nvml.text("nvmlSystemGetDriverVersion")
        cuda = nvml.number("nvmlSystemGetCudaDriverVersion_v2|nvmlSystemGetCudaDriverVersion", kind=c_int)
        count = nvml.number("nvmlDeviceGetCount_v2")
        devices = [device(nvml, index, driver) for index in range(count)]
    except NvmlError as error:
        return {"ok": False, "error": str(error), "code": error.code, "devices": []}
    sick = [f"device {it['index']}: {text}" for it in devices for text in it["faults"].values()]
    return {
        "ok": not sick,
        "error": "; ".join(sick) or None,
        "code": None,
        "driver": driver,
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "devices": devices,
    }


def device(nvml: Nvml, index: int, driver: str) -> dict[str, Any]:
    """All facts of one device; those without an answer are None."""
    facts: dict[str, Any] = {"index": index, "uuid": None, "name": None, "memory_mib": None, "driver": driver}
    faults: dict[str, str] = {}
    refused: dict[str, str] = {}
    try:
        handle = nvml.handle("nvmlDeviceGetHandleByIndex_v2", c_uint(index))
    except NvmlError as error:
        return {**facts, "faults": {"handle": str(error)}, "refused": {}}
    for name, question in _QUESTIONS.items():
        try:
            facts[name] = question(nvml, handle)
        except NvmlError as error:
            facts[name] = None
            if error.code not in _ABSENT:
                (refused if error.code == _NO_PERMISSION else faults)[name] = str(error)
    memory = facts["memory"] or {}
    facts["memory_mib"] = memory["total_bytes"] // 2**20 if memory else None
    mig = facts.pop("mig_devices") or []
    return {**facts, **({"mig": mig} if mig else {}), "faults": faults, "refused": refused}


def _memory(nvml: Nvml, handle: c_void_p) -> dict[str, int]:
    memory = _Memory()
    nvml.call("nvmlDeviceGetMemoryInfo", handle, byref(memory))
    return {"total_bytes": memory.total, "free_bytes": memory.free}


def _ecc(nvml: Nvml, handle: c_void_p) -> dict[str, Any]:
    enabled = bool(nvml.pair("nvmlDeviceGetEccMode", handle)[0])

    def errors(counter: int) -> int:
        kinds = (c_int(_UNCORRECTED), c_int(counter))
        return nvml.number("nvmlDeviceGetTotalEccErrors", handle, *kinds, kind=c_ulonglong)

    return {
        "enabled": enabled,
        "volatile_uncorrected": errors(_VOLATILE) if enabled else None,
        "aggregate_uncorrected": errors(_AGGREGATE) if enabled else None,
    }


def _remapped(nvml: Nvml, handle: c_void_p) -> dict[str, Any]:
    numbers = [c_uint(0) for _ in range(4)]
    nvml.call("nvmlDeviceGetRemappedRows", handle, *map(byref, numbers))
    _, uncorrectable, pending, failure = (number.value for number in numbers)
    return {"uncorrectable": uncorrectable, "pending": bool(pending), "failure": bool(failure)}


def _throttles(nvml: Nvml, handle: c_void_p) -> list[str]:
    names = "nvmlDeviceGetCurrentClocksEventReasons|nvmlDeviceGetCurrentClocksThrottleReasons"
    reasons = nvml.number(names, handle, kind=c_ulonglong)
    return [text for bit, text in THROTTLES.items() if reasons & bit]


def _mig_devices(nvml: Nvml, handle: c_void_p) -> list[str]:
    if not nvml.pair("nvmlDeviceGetMigMode", handle)[0]:
        return []
    found = []
    for index in range(nvml.number("nvmlDeviceGetMaxMigDeviceCount", handle)):
        try:
            part = nvml.handle("nvmlDeviceGetMigDeviceHandleByIndex", handle, c_uint(index))
        except NvmlError as error:
            if CODES.get(error.code) == "NOT_FOUND":  # fewer instances than there could be
                continue
            raise
        found.append(nvml.text("nvmlDeviceGetUUID", part))
    return found


def _links(nvml: Nvml, handle: c_void_p) -> dict[str, int] | None:
    """How many NVLinks are up and down; None for a device that has none."""
    states = []
    for link in range(_MAX_LINKS):
        try:
            states.append(bool(nvml.number("nvmlDeviceGetNvLinkState", handle, c_uint(link))))
        except NvmlError as error:
            if CODES.get(error.code) in ("NOT_SUPPORTED", "INVALID_ARGUMENT", "FUNCTION_NOT_FOUND"):
                break  # past the last link
            raise
    return {"up": sum(states), "down": len(states) - sum(states)} if states else None


def _pcie(nvml: Nvml, handle: c_void_p) -> dict[str, int]:
    calls = {"generation": "CurrPcieLinkGeneration", "generation_max": "MaxPcieLinkGeneration"}
    calls |= {"width": "CurrPcieLinkWidth", "width_max": "MaxPcieLinkWidth"}
    return {name: nvml.number(f"nvmlDeviceGet{call}", handle) for name, call in calls.items()}


def _processes(nvml: Nvml, handle: c_void_p) -> list[dict[str, int | None]]:
    name = "nvmlDeviceGetComputeRunningProcesses_v3|nvmlDeviceGetComputeRunningProcesses_v2"
    count = c_uint(0)
    try:
        nvml.call(name, handle, byref(count), None)
        return []
    except NvmlError as error:
        if error.code != _INSUFFICIENT_SIZE:
            raise
    count.value = count.value * 2 + 5  # more may have come in between
    found = (_Process * count.value)()
    nvml.call(name, handle, byref(count), found)
    return [
        {"pid": it.pid, "memory_bytes": None if it.memory == _NOT_AVAILABLE else it.memory}
        for it in found[: count.value]
    ]


_QUESTIONS: dict[str, Callable[[Nvml, c_void_p], Any]] = {
    "uuid": lambda nvml, handle: nvml.text("nvmlDeviceGetUUID", handle),
    "name": lambda nvml, handle: nvml.text("nvmlDeviceGetName", handle),
    "memory": _memory,
    "mig_mode": lambda nvml, handle: bool(nvml.pair("nvmlDeviceGetMigMode", handle)[0]),
    "mig_devices": _mig_devices,
    "ecc": _ecc,
    "remapped_rows": _remapped,
    "throttled_by": _throttles,
    "temperature_c": lambda nvml, handle: nvml.number("nvmlDeviceGetTemperature", handle, c_int(_GPU_SENSOR)),
    "power_w": lambda nvml, handle: nvml.number("nvmlDeviceGetPowerUsage", handle) / 1000,
    "power_limit_w": lambda nvml, handle: nvml.number("nvmlDeviceGetEnforcedPowerLimit", handle) / 1000,
    "nvlink": _links,
    "pcie": _pcie,
    "processes": _processes,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(read()) + "\n")
