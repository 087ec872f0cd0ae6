"""What a spec may ask for and yet cannot work well: warnings, not refusals. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rayflight.specs.pods import PodSpec, WorkerGroup
from rayflight.specs.units import gib, in_bytes

if TYPE_CHECKING:
    from rayflight.specs.cluster import ClusterSpec

_OBJECT_STORE_SHARE = 0.3  # Ray's default part of the memory limit (DEFAULT_OBJECT_STORE_MEMORY_PROPORTION)
_LEAST_HEAP_SHARE = 0.25  # less than this for Python, CUDA context and torch ends OOMKilled in practice


def cluster_warnings(spec: ClusterSpec) -> Iterator[str]:
    """Say in words what is likely to go wrong with this spec."""
    yield from _memory("head", spec.head)
    for group in spec.groups:
        yield from _memory(f"group {group.name!r}", group)
        yield from _spread(spec, group)
        if spec.autoscaler is None and group.least != group.most:
            yield (
                f"group {group.name!r}: min_replicas {group.least} and max_replicas {group.most} differ, but without "
                f"an autoscaler it stays at {group.replicas}"
            )
    if spec.autoscaler is not None and spec.service_account:
        yield (
            f"service_account {spec.service_account!r}: the autoscaler runs under it and must be allowed to get and "
            "patch rayclusters and pods (KubeRay makes such an account only where none is named)"
        )
    yield from _head_ports(spec)


def _memory(who: str, pod: PodSpec) -> Iterator[str]:
    """Pages in /dev/shm count against the memory limit: shm, object store and heap share it."""
    if pod.memory is None:
        yield f"{who}: no memory limit, so Ray takes the Kubernetes node's whole memory for its own"
        return
    limit = in_bytes(pod.memory)
    asked = pod.ray_start_params.get("object-store-memory")
    store = int(float(asked)) if asked else int(limit * _OBJECT_STORE_SHARE)
    shm = in_bytes(pod.shm_size) if pod.shm_size else limit
    if store > shm:
        yield (
            f"{who}: object store of {gib(store)} is larger than /dev/shm of {gib(shm)}; "
            "Ray would use slow storage or not start: raise shm_size or lower object-store-memory"
        )
    full = max(store, shm if pod.shm_size else 0)
    heap = pod.ray_start_params.get("memory")
    least = int(float(heap)) if heap else int(limit * _LEAST_HEAP_SHARE)
    if full + least > limit:
        yield (
            f"{who}: /dev/shm with the object store may grow to {gib(full)} and the heap needs {gib(least)}, "
            f"together more than the memory limit of {gib(limit)}: the container would be OOMKilled"
        )


def _spread(spec: ClusterSpec, group: WorkerGroup) -> Iterator[str]:
    if (
        group.spread == "required"
        and group.gpus
        and not (spec.node_selector_of(group) or group.affinity or spec.affinity)
    ):
        yield (
            f"group {group.name!r}: spread is required without node_selector or affinity, so Kubernetes nodes without "
            "GPUs count as places too and pods may stay Pending; name the GPU pool"
        )


def _head_ports(spec: ClusterSpec) -> Iterator[str]:
    """Declared ports replace KubeRay's: without one named dashboard, the head service has none."""
    if spec.raw_manifest is None:
        return
    container = spec.manifest()["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    names = [port.get("name") for port in container.get("ports") or []]
    if names and "dashboard" not in names:
        yield f"head: declares the ports {names} but none named dashboard (8265), so the head service will not have it"
