"""A live cluster for the command line: its snapshot with the driver log's end, or its whole bundle. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from rayflight.archive.bundle import write_bundle
from rayflight.backends.base import ClusterRef
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import ApiError, InvalidSpec
from rayflight.kube.access import KubeAccess
from rayflight.snapshot.assemble import assemble
from rayflight.snapshot.model import Job, Snapshot

_TAIL = 256 * 1024  # bytes of the driver log that a rule may want
_BLOCK = 4 * 1024 * 1024
_MOST = 256 * 1024 * 1024  # bytes of a driver log that are passed over to come to its end


async def observed(access: KubeAccess, name: str) -> Snapshot:
    """The cluster as it is now, with all that stands around it: a person may read more than a flight asks for."""
    async with _cluster(access, name) as (backend, ref):
        answers, seen = await asyncio.gather(backend.everything(ref), backend.observe(ref))
        whole = assemble(
            {file.removesuffix(".json").removesuffix(".txt"): data for file, data in answers.items()},
            namespace=ref.namespace,
            name=ref.name,
            taken_at=seen.taken_at,
            logs=seen.logs,
        )
        job = whole.ray.jobs[-1] if whole.ray and whole.ray.jobs else None
        tail = await _driver_tail(backend, ref, job) if job else ""
        return replace(whole, logs={**whole.logs, f"driver/{job.id}": tail}) if job and tail else whole


async def saved(access: KubeAccess, name: str, target: Path) -> list[str]:
    """Write the cluster's bundle; what could not be collected comes back in words."""
    async with _cluster(access, name) as (backend, ref):
        return await write_bundle(backend, ref, target)


@asynccontextmanager
async def _cluster(access: KubeAccess, name: str) -> AsyncIterator[tuple[KubernetesBackend, ClusterRef]]:
    async with KubernetesBackend(access) as backend:
        refs = await backend.find(access.namespace, "")
        ref = next((item for item in refs if item.name == name), None)
        if ref is None and not refs and await backend.lacks_namespace(access.namespace):
            raise InvalidSpec(
                "No such namespace:",
                which=access.namespace,
                why="the API server has none of that name",
                next_step="correct it, or name another API server with --context or --kubeconfig",
            )
        if ref is None:
            there = ", ".join(item.name for item in refs) or "none"
            raise InvalidSpec(
                "No such RayCluster:",
                which=f"{access.namespace}/{name}",
                why=f"the API server knows none of that name there (it knows {there})",
                next_step="correct the name, or name another cluster with --context or --kubeconfig",
            )
        yield backend, ref


async def _driver_tail(backend: KubernetesBackend, ref: ClusterRef, job: Job) -> str:
    """The log's end; empty where it cannot be read: the diagnosis does without."""
    tail, offset = b"", 0
    try:
        while offset < _MOST:
            block = await backend.jobs(ref).read_driver_log(job, offset, _BLOCK)
            tail, offset = (tail + block)[-_TAIL:], offset + len(block)
            if len(block) < _BLOCK:
                break
    except ApiError:
        return ""
    return tail.decode(errors="replace")
