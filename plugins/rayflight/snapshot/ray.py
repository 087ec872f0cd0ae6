"""Raw answers of the Ray dashboard to facts. Pure: no I/O.

Read from ``/api/v0/...?detail=1`` (raw keys), never by name from the older endpoints, which camelCase resource names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rayflight.snapshot.model import Job, PlacementGroup, RayNode
from rayflight.snapshot.times import from_milliseconds
from rayflight.states import JobStatus

Raw = Mapping[str, Any]

GROUP_LABEL = "ray.io/node-group"
# "Pending Demands:" since Ray 2.44, "Total Demands:" of autoscaler v2 before, "Demands:" of v1.
_DEMANDS = re.compile(r"^(?:Pending |Total )?Demands:$", re.MULTILINE)
_USAGE = re.compile(r"^(?:Total )?Usage:$", re.MULTILINE)
_NO_DEMANDS = "(no resource demands)"
_NEXT = re.compile(r"\n(?=\S)")  # a line that begins at the margin is of the next part


def version(raw: Raw) -> tuple[str, str]:
    """(Ray version, session_name) from ``/api/version``."""
    return raw.get("ray_version") or "", raw.get("session_name") or ""


def ray_nodes(raw: Raw, summary: Raw | None = None) -> tuple[RayNode, ...]:
    """Nodes from ``/api/v0/nodes?detail=1``; ``summary`` (``/nodes?view=summary``) adds pods' names and GPUs' use."""
    pods, used = (_pod_names(summary), _gpu_use(summary)) if summary else ({}, {})
    return tuple(_ray_node(item, pods.get(item["node_id"], ""), used.get(item["node_id"], ())) for item in _listed(raw))


def _ray_node(raw: Raw, pod: str, gpu_use: tuple[int, ...]) -> RayNode:
    labels = raw.get("labels") or {}
    return RayNode(
        id=raw["node_id"],
        ip=raw.get("node_ip") or "",
        state=raw.get("state") or "",
        is_head=bool(raw.get("is_head_node")),
        pod=pod,
        group=labels.get(GROUP_LABEL, ""),
        why=raw.get("state_message") or "",
        resources={name: float(value) for name, value in (raw.get("resources_total") or {}).items()},
        started_at=from_milliseconds(raw.get("start_time_ms")),
        ended_at=from_milliseconds(raw.get("end_time_ms")),
        gpu_use=gpu_use,
    )


def _gpu_use(summary: Raw) -> dict[str, tuple[int, ...]]:
    """Ray node id to what NVML says of its GPUs; nothing for a node of which one GPU says nothing."""
    found: dict[str, tuple[int, ...]] = {}
    for item in (summary.get("data") or {}).get("summary") or ():
        node, gpus = (item.get("raylet") or {}).get("nodeId"), item.get("gpus") or ()
        percents = [gpu.get("utilizationGpu") for gpu in gpus]
        if node and percents and None not in percents:
            found[node] = tuple(int(percent) for percent in percents)
    return found


def _pod_names(summary: Raw) -> dict[str, str]:
    """Ray node id to pod name (RAY_CLOUD_INSTANCE_ID, which the raylet reports as ``instanceId``)."""
    raylets = (item.get("raylet") or {} for item in (summary.get("data") or {}).get("summary") or ())
    return {item["nodeId"]: item.get("instanceId") or "" for item in raylets if item.get("nodeId")}


def job(raw: Raw) -> Job:
    """One submission from ``/api/jobs/ID``. Raises KeyError or ValueError on what is no submission."""
    code = raw.get("driver_exit_code")
    return Job(
        id=raw["submission_id"],
        ray_job=raw.get("job_id") or "",
        status=JobStatus(raw["status"]),
        message=raw.get("message") or "",
        error_type=raw.get("error_type") or "",
        entrypoint=raw.get("entrypoint") or "",
        metadata={str(name): str(value) for name, value in (raw.get("metadata") or {}).items()},
        started_at=from_milliseconds(raw.get("start_time")),
        ended_at=from_milliseconds(raw.get("end_time")),
        driver_node_id=raw.get("driver_node_id") or "",
        driver_exit_code=None if code is None else int(code),
        runtime_env=tuple(sorted(raw.get("runtime_env") or ())),
    )


def jobs(raw: Sequence[Raw]) -> tuple[Job, ...]:
    """Submissions from ``/api/jobs/``, oldest first; drivers that nobody submitted are left out."""
    found = (job(item) for item in raw if item.get("submission_id"))
    return tuple(sorted(found, key=lambda item: item.started_at or ""))


def placement_groups(raw: Raw) -> tuple[PlacementGroup, ...]:
    """Placement groups from ``/api/v0/placement_groups?detail=1``."""
    return tuple(_placement_group(item) for item in _listed(raw))


def _placement_group(raw: Raw) -> PlacementGroup:
    bundles = sorted(raw.get("bundles") or (), key=lambda item: (item.get("bundle_id") or {}).get("bundle_index", 0))
    requested = (raw.get("stats") or {}).get("creation_request_received_ns")
    return PlacementGroup(
        id=raw["placement_group_id"],
        state=raw.get("state") or "",
        ray_job=raw.get("creator_job_id") or "",
        since=from_milliseconds(float(requested or 0) / 1e6),
        strategy=raw.get("strategy") or "",
        bundles=tuple(
            {name: float(value) for name, value in (item.get("unit_resources") or {}).items()} for item in bundles
        ),
    )


def pending_demands(raw: Raw) -> tuple[str, ...]:
    """The lines below "Pending Demands" of ``/api/cluster_status?format=1``; empty when nothing is asked for."""
    return tuple(line for line in _below(_DEMANDS, raw) if line != _NO_DEMANDS)


def usage(raw: Raw) -> tuple[str, ...]:
    """The lines below "Total Usage:" (``0.0/4.0 CPU``)."""
    return tuple(line for line in _below(_USAGE, raw) if "/" in line)


def _below(title: re.Pattern[str], raw: Raw) -> list[str]:
    """The indented lines below a title; older Ray wrote other titles over the same lines."""
    text = (raw.get("data") or {}).get("clusterStatus")
    found = title.search(text) if isinstance(text, str) else None
    part = _NEXT.split(text[found.end() :].lstrip("\n"), maxsplit=1)[0] if found and isinstance(text, str) else ""
    return [line.strip() for line in part.splitlines() if line.strip()]


def _listed(raw: Raw) -> Sequence[Raw]:
    """The rows of a ``/api/v0`` answer. Raises ValueError when Ray says that it failed: that is not an empty list."""
    if raw.get("result") is not True:
        raise ValueError(f"Ray's state API failed: {raw.get('msg') or 'no reason given'}")
    rows: Sequence[Raw] = ((raw.get("data") or {}).get("result") or {}).get("result") or ()
    return rows
