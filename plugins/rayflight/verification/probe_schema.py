"""The probe's schema, version 1, as far as verification reads it; and how a document is cut to it. Pure.

A shape is a type, a list with the shape of its items, or a mapping with the shapes of its keys (``*``: of any key).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SCHEMA = 1  # also in probe/questions.py, which imports nothing of Rayflight

_FORMAT = {"ok": bool, "max_error": float, "tolerance": float, "tflops": float, "error": str}
_DEVICE = {
    "uuid": str,
    "name": str,
    "memory_mib": float,
    "driver": str,
    "mig": [str],
    "memory": {"total_bytes": float, "free_bytes": float},
    "ecc": {"volatile_uncorrected": float, "aggregate_uncorrected": float},
    "remapped_rows": {"pending": bool, "failure": bool},
    "throttled_by": [str],
    "temperature_c": float,
    "nvlink": {"up": float, "down": float},
    "pcie": {"generation": float, "generation_max": float, "width": float, "width_max": float},
    "processes": [{"pid": float, "memory_bytes": float}],
    "faults": {"*": str},
    "refused": {"*": str},
}
RANK: Mapping[str, Any] = {
    **dict.fromkeys(("pod", "ray_node_id", "node_ip", "torch", "torch_cuda", "python", "ray"), str),
    **dict.fromkeys(("error", "devices_error"), str),
    **dict.fromkeys(("shm_bytes", "memory_limit_bytes"), float),
    "rank": int,
    "simulated": bool,
    "cuda": bool,
    "gpu_ids": [object],
    "torch_archs": [str],
    "devices": [_DEVICE],
    "nvml": {"ok": bool, "error": str, "driver": str, "cuda": str},
    "clock": {"offset_seconds": float, "error_seconds": float},
    "shared_memory": {"ok": bool, "error": str, "wrote_bytes": float, "gbps": float},
    "head": {"name": str, "addresses": [str], "error": str, "reached": {"*": str}},
    "disk": {"path": str, "error": str, "total_bytes": float, "free_bytes": float},
    "copy": {"ok": bool, "error": str, "name": str, "uuid": str, "capability": str}
    | {"to_device_gbps": float, "to_host_gbps": float},
    "compute": {"device": str, "matmul_ok": bool, "seconds": float, "max_error": float, "formats": {"*": _FORMAT}},
    "collective": {"backend": str, "ok": bool, "world_size": int}
    | {"bandwidth_gbps": float, "from_previous_gbps": float}
    | {"node": {"ok": bool, "ranks": int, "bandwidth_gbps": float}},
    "object_store": {"put_get_ok": bool, "from_node": str},
    "storage": {"path": str, "wrote": bool, "read_all": bool},
    "failed": {"*": str},
}
WHOLE: Mapping[str, Any] = {
    "placement": {"ok": bool, "error": str},
    "seconds": {"*": float},
    "after": {"*": {"held": [str], "memory_free": {"*": float}, "error": str}},
}


def cut(value: Any, shape: Any, at: str = "") -> tuple[Any, tuple[str, ...]]:
    """The value without what is not of the shape (None in its place), and what that was."""
    if value is None or shape is object:
        return value, ()
    if isinstance(shape, list) and isinstance(value, list):
        parts = [cut(item, shape[0], f"{at}[{index}]") for index, item in enumerate(value)]
        return [part for part, _ in parts if part is not None], tuple(text for _, texts in parts for text in texts)
    if isinstance(shape, Mapping) and isinstance(value, Mapping):
        pairs = {key: cut(item, _of(shape, key), f"{at}.{key}") for key, item in value.items()}
        return {key: part for key, (part, _) in pairs.items()}, tuple(t for _, texts in pairs.values() for t in texts)
    if isinstance(shape, type) and _is(value, shape):
        return value, ()
    return None, (f"{at.lstrip('.')}: {type(value).__name__} is not of the probe's schema",)


def _of(shape: Mapping[str, Any], key: str) -> Any:
    """Unknown keys are kept as they are: nobody reads them."""
    return shape.get(key, shape.get("*", object))


def _is(value: object, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def leaves(shape: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every place of the schema, for tests that put something strange into each."""
    if path:
        yield path
    if isinstance(shape, Mapping):
        for key, inner in shape.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(shape, list):
        yield from leaves(shape[0], (*path, "0")) if isinstance(shape[0], Mapping | list) else ()
