"""A probe's result as the probe prints it, right until a test changes it; and the checks by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rayflight.findings import Check
from rayflight.snapshot.model import Service, Snapshot
from rayflight.specs import ClusterSpec
from rayflight.verification import verify_all
from tests.made_up import snapshot

GIB = 2**30
FORMATS = {
    name: {"ok": True, "max_error": error, "tolerance": 2**-7, "tflops": tflops, "error": None}
    for name, error, tflops in (
        ("fp32", 0.0, 19.0),
        ("tf32", 0.0, 120.0),
        ("bf16", 0.002, 240.0),
        ("fp16", 0.001, 250.0),
    )
}
GPU_COMPUTE = {"device": "cuda:0 NVIDIA A100", "matmul_ok": True, "seconds": 0.2, "max_error": 0.0, "formats": FORMATS}
COPY = {"ok": True, "error": None, "name": "NVIDIA A100", "capability": "8.0", "driver_cuda": "12.4",
        "to_device_gbps": 24.0, "to_host_gbps": 22.0}  # fmt: skip
NVML = {"ok": True, "error": None, "code": None, "driver": "550.1", "cuda": "12.4"}
CPU_COMPUTE = {"device": "cpu", "matmul_ok": True, "seconds": 0.2, "max_error": 0.0}


def spec(**changes: Any) -> ClusterSpec:
    group = {"name": "gpu", "replicas": 2, "gpus": 1, "spread": "required", **changes.pop("group", {})}
    return ClusterSpec(
        **{"image": "registry.example/ray:2.60.0", "ray_version": "2.60.0", "groups": [group], **changes}
    )


def device(uuid: str, **changes: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": "NVIDIA A100",
        "memory_mib": 81920,
        "driver": "550.1",
        "memory": {"total_bytes": 80 * GIB, "free_bytes": 80 * GIB},
        "mig_mode": False,
        "ecc": {"enabled": True, "volatile_uncorrected": 0, "aggregate_uncorrected": 3},
        "remapped_rows": {"uncorrectable": 0, "pending": False, "failure": False},
        "throttled_by": [],
        "temperature_c": 35,
        "nvlink": {"up": 12, "down": 0},
        "pcie": {"generation": 1, "generation_max": 4, "width": 16, "width_max": 16},
        "processes": [],
        "faults": {},
        "refused": {},
        **changes,
    }


def rank(number: int, **changes: Any) -> dict[str, Any]:
    other = 3 - (number + 1)
    return {
        "rank": number,
        "pod": f"flight-gpu-worker-{number + 1}",
        "ray_node_id": f"ray-worker-uid-{number + 1}",
        "node_ip": f"10.0.1.{number + 1}",
        "gpu_ids": [0],
        "cuda_visible_devices": "0",
        "devices": [device(f"GPU-{number}")],
        "nvml": NVML,
        "simulated": False,
        "shm_bytes": 2 * GIB,
        "memory_limit_bytes": 4 * GIB,
        "torch": "2.9.0",
        "torch_cuda": "12.4",
        "torch_archs": ["sm_80", "sm_90"],
        "cuda": True,
        "clock": {"offset_seconds": 0.01, "error_seconds": 0.001},
        "shared_memory": {"ok": True, "error": None, "free_bytes": GIB, "wrote_bytes": 32 * 2**20, "gbps": 1.0},
        "head": {
            "name": "flight-head-svc.team-a.svc.cluster.local",
            "addresses": ["10.0.0.1"],
            "error": None,
            "reached": {"gcs": None, "dashboard": None, "client": None},
        },
        "disk": {"path": "/tmp/ray", "error": None, "total_bytes": 100 * GIB, "free_bytes": 50 * GIB},
        "copy": {**COPY, "uuid": str(number)},
        "python": "3.11.2",
        "ray": "2.60.0",
        "compute": GPU_COMPUTE,
        "collective": {
            "backend": "nccl",
            "ok": True,
            "world_size": 2,
            "sum": 3.0,
            "bandwidth_gbps": 100.0 + number,
            "from_previous_gbps": 20.0,
        },
        "object_store": {"put_get_ok": True, "from_node": f"ray-worker-uid-{other}"},
        "storage": None,
        "error": None,
        **changes,
    }


def result(*ranks: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "world_size": 2,
        "placement": {"ok": True, "bundles": 2, "error": None},
        "seconds": {"total": 3.25},
        "ranks": list(ranks or (rank(0), rank(1))),
        "after": {},
        **changes,
    }


def rows(
    name: str, seen: Snapshot | None = None, probed: Mapping[str, Any] | None = None, asked: ClusterSpec | None = None
) -> list[Check]:
    """Every row of that id."""
    every = verify_all(asked or spec(), seen or snapshot_with_store(), result() if probed is None else probed)
    return [check for check in every if check.id == name]


def verdicts(name: str, *arguments: Any, **named: Any) -> list[str]:
    return [str(check.verdict) for check in rows(name, *arguments, **named)]


def snapshot_with_store(**changes: Any) -> Snapshot:
    """A healthy cluster with a head service, Ready pods, and the size of Ray's object store."""
    ports = {"dashboard": 8265, "gcs-server": 6379, "client": 10001}
    seen = snapshot(services=(Service(name="flight-head-svc", ports=ports),))
    assert seen.ray
    nodes = tuple(
        replace(node, resources={**node.resources, "object_store_memory": 0.6 * GIB}) for node in seen.ray.nodes
    )
    return replace(replace(seen, ray=replace(seen.ray, nodes=nodes)), **changes)
