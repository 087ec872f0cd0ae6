"""The process trees of a local cluster in the form of pods, so that one Snapshot serves both places. Pure.

All have one address, so no pod has an IP: Ray nodes are told apart by the name that each was given.
A tree that was started again is a container that restarted in its pod; one that waits for a GPU is unschedulable.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from rayflight.manifests.pods import CLUSTER_LABEL, GROUP_LABEL
from rayflight.snapshot.kubernetes import ROLE_LABEL

JsonObject = dict[str, Any]
IMAGE = "(local process)"


def with_status(cluster: JsonObject) -> JsonObject:
    """The RayCluster as an operator that has seen it would leave it."""
    found = copy.deepcopy(cluster)
    found["status"] = {"observedGeneration": found["metadata"].get("generation", 1), "state": ""}
    return found


def pods(
    cluster: JsonObject, trees: Iterable[Mapping[str, Any]], states: Mapping[str, Any], node: str
) -> list[JsonObject]:
    """One pod per tree that the keeper knows."""
    return [_pod(cluster, tree, states[tree["name"]], node) for tree in trees if tree["name"] in states]


def _pod(cluster: JsonObject, tree: Mapping[str, Any], state: Mapping[str, Any], node: str) -> JsonObject:
    meta = cluster["metadata"]
    scheduled = state["reason"] != "Unschedulable"
    container = _container(cluster, tree)
    return {
        "metadata": {
            "name": tree["name"],
            "uid": f"{meta['uid']}-{tree['index']}",
            "namespace": meta["namespace"],
            "creationTimestamp": state["created_at"],
            "labels": {CLUSTER_LABEL: meta["name"], GROUP_LABEL: tree["group"], ROLE_LABEL: tree["role"]},
            "ownerReferences": [{"uid": meta["uid"], "name": meta["name"], "kind": "RayCluster", "controller": True}],
        },
        "spec": {"nodeName": node if scheduled else "", "containers": [container]},
        "status": {
            "phase": "Running" if state["started_at"] else "Pending",
            "startTime": state["created_at"],
            "conditions": _conditions(state, scheduled=scheduled),
            "containerStatuses": [_status(container["name"], state)] if scheduled else [],
        },
    }


def _container(cluster: JsonObject, tree: Mapping[str, Any]) -> JsonObject:
    """Name and resources; variables stay in the RayCluster."""
    spec = cluster["spec"]
    groups = {group["groupName"]: group for group in spec.get("workerGroupSpecs") or ()}
    group = spec["headGroupSpec"] if tree["role"] == "head" else groups[tree["group"]]
    found = group["template"]["spec"]["containers"][0]
    return {"name": found["name"], "image": IMAGE, "resources": found.get("resources") or {}}


def _conditions(state: Mapping[str, Any], *, scheduled: bool) -> list[JsonObject]:
    placed: JsonObject = {"type": "PodScheduled", "status": str(scheduled), "lastTransitionTime": state["created_at"]}
    if not scheduled:
        placed |= {"reason": state["reason"], "message": state["message"]}
    ready = {"type": "Ready", "status": str(state["state"] == "running"), "lastTransitionTime": state["started_at"]}
    return [placed, ready] if state["started_at"] else [placed]


def _status(name: str, state: Mapping[str, Any]) -> JsonObject:
    running, ended = state["state"] == "running", _ended(state)
    now: JsonObject = {"waiting": {"reason": state["reason"] or "ContainerCreating", "message": state["message"]}}
    if running:
        now = {"running": {"startedAt": state["started_at"]}}
    elif state["state"] == "terminated" and ended:
        now = {"terminated": ended}
    return {
        "name": name,
        "image": IMAGE,
        "imageID": IMAGE,
        "ready": running,
        "restartCount": state["restarts"],
        "state": now,
        "lastState": {"terminated": ended} if ended and "terminated" not in now else {},
    }


def _ended(state: Mapping[str, Any]) -> JsonObject | None:
    if state["last_ended_at"] is None:
        return None
    code = state["last_exit"]
    return {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": state["last_ended_at"]}
