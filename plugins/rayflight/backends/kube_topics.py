"""What the shared watches follow, and which part of it concerns one cluster. Pure: no I/O.

Trimming keeps what facts are made of (snapshot/kubernetes.py): a heartbeat or another field manager wakes nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rayflight.kube.client import JsonObject
from rayflight.kube.feed import Concerns, Topic
from rayflight.kube.resources import EVENTS, NODES, PODS, RAYCLUSTERS

CLUSTER_LABEL = "ray.io/cluster"
_POD_PREFIX = 50  # KubeRay keeps the first 50 characters of <cluster>-<group>- in pod names (utils.PodName)
_EVENT_KINDS = frozenset({"RayCluster", "Pod", "PersistentVolumeClaim", "Workload", "Service", "Job"})
_NODE_STATUS = ("capacity", "allocatable", "conditions")


def topics(namespace: str) -> dict[str, Topic]:
    """By the names that ``snapshot.assemble`` knows them. Nodes are of the whole cluster, the rest of the namespace."""
    return {
        "rayclusters": Topic(RAYCLUSTERS, namespace, "", _name, _unmanaged),
        "pods": Topic(PODS, namespace, CLUSTER_LABEL, _cluster, _unmanaged),
        "events": Topic(EVENTS, namespace, "", _about, _event),
        "nodes": Topic(NODES, None, "", _name, _node),
    }


def concerns(source: str, cluster: str) -> Concerns | None:
    """Which index keys of that source concern the cluster of that name."""
    exact: Callable[[Any], bool] = lambda key: key == cluster  # noqa: E731 - three of a kind
    return {"rayclusters": exact, "pods": exact, "events": _events_of(cluster)}.get(source)


def belongs(item: JsonObject, uid: str) -> bool:
    """Owned by the cluster of that UID, or by nobody: then its label alone speaks (a lost owner reference)."""
    owners = [owner for owner in item["metadata"].get("ownerReferences") or () if owner.get("kind") == "RayCluster"]
    return not owners or any(owner.get("uid") == uid for owner in owners)


def _events_of(cluster: str) -> Concerns:
    """Events are found by the name of what they are about: pods that are gone have no other trace."""
    pods = f"{cluster}-"[:_POD_PREFIX]
    workload = f"raycluster-{cluster}-"  # Kueue's
    return lambda name: name == cluster or str(name).startswith((pods, workload))


def _name(item: JsonObject) -> str:
    return str(item["metadata"]["name"])


def _cluster(item: JsonObject) -> str:
    return str((item["metadata"].get("labels") or {}).get(CLUSTER_LABEL, ""))


def _about(item: JsonObject) -> str:
    return str((item.get("involvedObject") or {}).get("name", ""))


def _unmanaged(item: JsonObject) -> JsonObject:
    item["metadata"].pop("managedFields", None)
    return item


def _event(item: JsonObject) -> JsonObject | None:
    return _unmanaged(item) if (item.get("involvedObject") or {}).get("kind") in _EVENT_KINDS else None


def _node(item: JsonObject) -> JsonObject:
    meta, status = item["metadata"], item.get("status") or {}
    kept = {key: status[key] for key in _NODE_STATUS if key in status}
    kept["conditions"] = [
        {key: value for key, value in each.items() if key != "lastHeartbeatTime"}
        for each in kept.get("conditions") or ()
    ]
    named = {key: meta[key] for key in ("name", "uid", "resourceVersion", "labels") if key in meta}
    return {"metadata": named, "spec": item.get("spec") or {}, "status": kept}
