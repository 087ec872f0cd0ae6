"""Read what a RayCluster manifest asks for, so that a raw manifest is checked and verified like a shape. Pure.

May not change the manifest: that is manifests/' business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")
_SIZES = ("memory", "object-store-memory")  # what shares the memory limit; the rest stays unread
_SAMPLE = "apiVersion: ray.io/v1, kind: RayCluster"

READ_FIELDS = frozenset({"image", "ray_version", "head", "groups", "autoscaler"})
"""Fields of ClusterSpec that are read from a raw manifest."""


def ray_counts(resource: str) -> bool:
    """Whether KubeRay passes this limit to ``ray start --num-gpus`` (utils/resources.go)."""
    return resource.endswith("gpu") or bool(_MIG.search(resource))


def read_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the READ_FIELDS of ClusterSpec that this manifest stands for."""
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    if kind != "RayCluster" or version != "ray.io/v1":
        raise ValueError(f"raw_manifest must be one RayCluster ({_SAMPLE}), got kind {kind!r}, apiVersion {version!r}")
    spec = _mapping(manifest, "spec", "raw_manifest")
    head = _mapping(spec, "headGroupSpec", "raw_manifest.spec")
    fields: dict[str, Any] = {
        "head": _pod(head, "headGroupSpec"),
        "groups": [_group(group, n) for n, group in enumerate(spec.get("workerGroupSpecs") or [])],
    }
    if spec.get("rayVersion"):
        fields["ray_version"] = spec["rayVersion"]
    if spec.get("enableInTreeAutoscaling"):
        options = spec.get("autoscalerOptions") or {}
        fields["autoscaler"] = {"version": options["version"]} if options.get("version") else {}
    return fields


def _mapping(parent: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = parent.get(key)
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} has no {key}")
    return value


def _pod(group: Mapping[str, Any], where: str) -> dict[str, Any]:
    pod = _mapping(_mapping(group, "template", where), "spec", f"{where}.template")
    containers = pod.get("containers") or []
    if not containers:
        raise ValueError(f"{where}.template.spec has no containers; the first one is the Ray container")
    limits, requests = (containers[0].get("resources", {}).get(kind) or {} for kind in ("limits", "requests"))
    return {
        "image": containers[0].get("image"),
        "cpu": limits.get("cpu", requests.get("cpu")),
        "memory": limits.get("memory"),
        "node_selector": pod.get("nodeSelector") or {},
        "tolerations": pod.get("tolerations") or [],
        "affinity": pod.get("affinity"),
        "shm_size": _shm_size(pod, containers[0]),
        "ray_start_params": {key: value for key, value in (group.get("rayStartParams") or {}).items() if key in _SIZES},
    }


def _group(group: Mapping[str, Any], number: int) -> dict[str, Any]:
    where = f"workerGroupSpecs.{number}"
    pod = _pod(group, where)
    limits = group["template"]["spec"]["containers"][0].get("resources", {}).get("limits") or {}
    counted = next((key for key in sorted(limits) if ray_counts(key)), None)
    least, most = group.get("minReplicas", 0), group.get("maxReplicas")
    replicas = group.get("replicas", least)
    spread = group["template"]["spec"].get("topologySpreadConstraints")
    return {
        **pod,
        "name": group.get("groupName"),
        "replicas": replicas,
        "min_replicas": least,
        "max_replicas": replicas if most is None else most,
        "hosts_per_replica": group.get("numOfHosts", 1),
        "spread": "none",
        "topology_spread": spread,
        **({"gpus": int(limits[counted]), "gpu_resource": counted} if counted else {}),
    }


def _shm_size(pod: Mapping[str, Any], container: Mapping[str, Any]) -> str | None:
    mounted = next((m["name"] for m in container.get("volumeMounts") or [] if m.get("mountPath") == "/dev/shm"), None)  # noqa: S108
    volume: Mapping[str, Any] = next((v for v in pod.get("volumes") or [] if v.get("name") == mounted), {})
    size = (volume.get("emptyDir") or {}).get("sizeLimit")
    return None if size is None else str(size)
