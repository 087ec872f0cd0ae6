"""From a RayCluster object to what the keeper starts on this machine. Pure: the same object always gives the same plan.

Each pod becomes a process tree with the CPUs, GPUs and variables of its Ray container. What only Kubernetes can do is
named by ``warnings``, never done in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rayflight.errors import InvalidSpec
from rayflight.keeper.commands import Tree
from rayflight.snapshot import capacity
from rayflight.snapshot.kubernetes import cluster as facts
from rayflight.snapshot.model import quantity
from rayflight.specs import ClusterSpec, PvcStorage

JsonObject = dict[str, Any]

_STORE_SHARE = 0.3  # Ray's own part of a container's memory limit
_LEAST_STORE, _MOST_STORE = 80 * 1024**2, 2 * 1024**3  # Ray refuses less than 75 MiB
_DEFAULT_MEMORY = 2 * 1024**3
_SET_ELSEWHERE = ("num-cpus", "num-gpus", "object-store-memory", "memory", "dashboard-host", "dashboard-port", "port")


def trees(manifest: JsonObject, run_folder: str, *, shared_memory: int | None) -> list[Tree]:
    """One per pod, the head first."""
    found = facts(manifest)
    spec = manifest["spec"]
    simulated = found.annotations.get("rayflight.io/simulated-gpus") == "true"
    groups = spec.get("workerGroupSpecs") or []
    pods: list[tuple[str, str, Mapping[str, str], JsonObject, Mapping[str, str]]] = [
        ("head", "headgroup", found.head_limits, spec["headGroupSpec"], found.head_start_params)
    ]
    for group, raw in zip(found.groups, groups, strict=True):
        pods += [("worker", group.name, group.limits, raw, group.start_params)] * group.desired
    room = int(shared_memory * 0.8 / len(pods)) if shared_memory else _MOST_STORE
    return [
        Tree(
            name=_pod_name(found.name, role, group, index),
            role=role,
            group=group,
            index=index,
            folder=f"{run_folder}/{'h' if role == 'head' else f'w{index}'}",
            cpus=_cpus(limits, parameters, role),
            gpus=int(float(parameters.get("num-gpus", capacity.gpus(limits)))),
            simulated=simulated,
            object_store=_object_store(limits, parameters, room),
            memory=int(quantity(limits["memory"])) if role == "worker" and "memory" in limits else None,
            environment=_environment(raw),
            parameters={name: value for name, value in parameters.items() if name not in _SET_ELSEWHERE},
        )
        for index, (role, group, limits, raw, parameters) in enumerate(pods)
    ]


def _pod_name(cluster: str, role: str, group: str, index: int) -> str:
    return f"{cluster}-head" if role == "head" else f"{cluster}-{group}-worker-{index}"


def _cpus(limits: Mapping[str, str], parameters: Mapping[str, str], role: str) -> int:
    """KubeRay's rule: ``num-cpus`` where it is set, else the limit, rounded up."""
    if "num-cpus" in parameters:
        return int(parameters["num-cpus"])
    return 0 if role == "head" else max(1, int(-(-quantity(limits.get("cpu", "1")) // 1)))


def _object_store(limits: Mapping[str, str], parameters: Mapping[str, str], room: int) -> int:
    if "object-store-memory" in parameters:
        return int(parameters["object-store-memory"])
    limit = quantity(limits["memory"]) if "memory" in limits else _DEFAULT_MEMORY
    return max(_LEAST_STORE, min(int(limit * _STORE_SHARE), _MOST_STORE, room))


def _environment(group: JsonObject) -> dict[str, str]:
    container = group["template"]["spec"]["containers"][0]
    return {item["name"]: str(item.get("value") or "") for item in container.get("env") or () if "value" in item}


def warnings(spec: ClusterSpec) -> Iterator[str]:
    """What of the shape has no meaning on one machine."""
    ignored: Mapping[str, object] = {
        "autoscaler (the cluster keeps its size)": spec.autoscaler,
        "queue": spec.queue,
        "gcs_fault_tolerance": spec.gcs_fault_tolerance,
        "env_from and env_from_secrets (there are no Secrets)": spec.env_from
        or spec.env_from_secrets
        or any(pod.env_from or pod.env_from_secrets for pod in (spec.head, *spec.groups)),
        "volumes": spec.volumes or any(pod.volumes for pod in (spec.head, *spec.groups)),
    }
    named = [name for name, given in ignored.items() if given]
    if named:
        yield f"the local backend ignores {'; '.join(named)}"


def refuse(spec: ClusterSpec, devices: Sequence[str]) -> None:
    """Raises InvalidSpec for what cannot be done here at all."""
    if isinstance(spec.storage, PvcStorage):
        raise InvalidSpec(
            "Refused storage",
            which=spec.storage.claim,
            why="the local backend has no volume claims",
            next_step="leave the claim out, or name the URL of an object store",
        )
    if not spec.simulated and spec.gpus > len(devices):
        raise InvalidSpec(
            "This machine has too few GPUs for shape",
            which=spec.name or "",
            why=f"it asks for {spec.gpus}, nvidia-smi lists {len(devices)}",
            next_step="set gpus to 0 (training on CPUs), or `simulated: true` for GPUs that are none",
        )


def as_dict(tree: Tree, base: Mapping[str, str]) -> JsonObject:
    """For ``plan.json``, with the variables that every process of the cluster has."""
    return {**asdict(tree), "environment": {**base, **tree.environment}, "parameters": dict(tree.parameters)}
