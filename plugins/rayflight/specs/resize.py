"""Change a shape as a trigger form does: number of worker pods, GPUs of each, image. Pure."""

from __future__ import annotations

from typing import Any

from rayflight.errors import InvalidSpec
from rayflight.specs.cluster import ClusterSpec
from rayflight.specs.merge import merge
from rayflight.specs.pods import KubeObject, WorkerGroup


def resized(
    spec: ClusterSpec,
    *,
    replicas: int | None = None,
    gpus: int | None = None,
    image: str | None = None,
    group: str | None = None,
) -> ClusterSpec:
    """Return the spec with these changes; ``group`` may be left out where only one can be meant."""
    meant = None if replicas is None and gpus is None else _meant(spec, group)
    if spec.raw_manifest is not None:
        changes = _in_manifest(spec, meant, replicas, gpus, image)
        return spec.replace(overrides=merge(spec.overrides, changes)) if changes else spec
    changed: dict[str, Any] = {}
    if meant is not None:
        new = _with_numbers(meant, replicas, gpus)
        changed["groups"] = tuple(new if each is meant else each for each in spec.groups)
    if image is not None:
        changed |= {
            "image": image,
            "head": spec.head.replace(image=None),
            "groups": tuple(each.replace(image=None) for each in changed.get("groups", spec.groups)),
        }
    return spec.replace(**changed) if changed else spec


def _meant(spec: ClusterSpec, name: str | None) -> WorkerGroup:
    if name is not None:
        return spec.group(name)
    candidates = [group for group in spec.groups if group.gpus] or list(spec.groups)
    if len(candidates) > 1:
        raise InvalidSpec(
            "Which group?",
            which=spec.name or "",
            why=f"{', '.join(group.name for group in candidates)} could all be meant",
            next_step="name the group to change",
        )
    return candidates[0]


def _with_numbers(group: WorkerGroup, replicas: int | None, gpus: int | None) -> WorkerGroup:
    try:
        return group.replace(**_numbers(group, replicas, gpus))
    except InvalidSpec as error:
        which = f"resize of group {group.name!r}"
        raise InvalidSpec(error.what, which=which, why=error.why, next_step=error.next_step) from None


def _numbers(group: WorkerGroup, replicas: int | None, gpus: int | None) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if replicas is not None:
        changes["replicas"] = replicas
        if group.least == group.most:  # a group of fixed size stays one
            changes |= {"min_replicas": None, "max_replicas": None}
    if gpus is not None:
        changes["gpus"] = gpus
    return changes


def _in_manifest(
    spec: ClusterSpec, meant: WorkerGroup | None, replicas: int | None, gpus: int | None, image: str | None
) -> KubeObject:
    """The same changes as overrides of a raw manifest."""
    raw = spec.manifest()["spec"]
    workers: dict[str, KubeObject] = {}
    head: KubeObject = {}
    if image is not None:
        head = _container(raw["headGroupSpec"], {"image": image})
        workers = {each["groupName"]: _container(each, {"image": image}) for each in raw["workerGroupSpecs"]}
    if meant is not None:
        change = workers.setdefault(meant.name, {})
        if replicas is not None:
            fixed = meant.least == meant.most
            change |= {"replicas": replicas} | ({"minReplicas": replicas, "maxReplicas": replicas} if fixed else {})
        if gpus is not None:
            limits = {"resources": {"limits": {meant.gpu_resource: str(gpus)}}}
            source = next(each for each in raw["workerGroupSpecs"] if each["groupName"] == meant.name)
            change |= merge(change, _container(source, limits))
    groups = [{"groupName": name, **change} for name, change in workers.items()]
    changes = ({"headGroupSpec": head} if head else {}) | ({"workerGroupSpecs": groups} if groups else {})
    return {"spec": changes} if changes else {}


def _container(group: KubeObject, change: KubeObject) -> KubeObject:
    """A change of the Ray container, which is always the first."""
    name = group["template"]["spec"]["containers"][0]["name"]
    return {"template": {"spec": {"containers": [{"name": name, **change}]}}}
