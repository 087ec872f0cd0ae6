"""The same training as KubeRay alone would do it: a RayJob in K8sJobMode that shuts its cluster down when finished.

Built from the flight that Rayflight planned, so that both have the same pods, grace and entrypoint. The script comes
as a ConfigMap volume, KubeRay's own way; that spares the RayJob the upload which Rayflight does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dev.cluster import RAY, Cluster, Json
from rayflight.labels import MANAGED_BY, PREFIX, Owner
from rayflight.manifests import build
from rayflight.specs import ClusterSpec

_SCRIPTS = "/training"
_VOLUME = "training"


def rayjob(flight: Mapping[str, Any], name: str, namespace: str, working_dir: Path) -> tuple[Json, Json]:
    """The ConfigMap with the scripts and the RayJob, from the result of ``plan``."""
    spec = ClusterSpec.model_validate(flight["spec"])
    cluster: Json = build(spec, Owner.from_dict(flight["owner"]), namespace)["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        _without_labels(group["template"])
        _mount(group["template"], name)
    scripts = {file.name: file.read_text() for file in sorted(working_dir.glob("*.py"))}
    variables = {**flight["job"].get("env", {}), "PYTHONPATH": _SCRIPTS}
    head = cluster["headGroupSpec"]["template"]["spec"]
    return (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": scripts},
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "entrypoint": f"bash -c {json.dumps('cd ' + _SCRIPTS + ' && ' + flight['job']['entrypoint'])}",
                "submissionMode": "K8sJobMode",
                "shutdownAfterJobFinishes": True,
                "ttlSecondsAfterFinished": 0,
                "backoffLimit": 0,
                "runtimeEnvYAML": json.dumps({"env_vars": {k: str(v) for k, v in variables.items()}}),
                "rayClusterSpec": cluster,
                "submitterPodTemplate": _submitter(head),
            },
        },
    )


def create(cluster: Cluster, configmap: Json, job: Json) -> None:
    """Create both; the RayJob last, for its creation starts the clock."""
    namespace = job["metadata"]["namespace"]
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", configmap)
    cluster.request("POST", f"{RAY}/namespaces/{namespace}/rayjobs", job)


def _submitter(head: Json) -> Json:
    container = {
        "name": "ray-job-submitter",
        "image": head["containers"][0]["image"],
        "imagePullPolicy": head["containers"][0].get("imagePullPolicy", "IfNotPresent"),
        # Small requests: on a small machine the submitter must not wait for room.
        "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    grace = head.get("terminationGracePeriodSeconds")
    return {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [container]}}


def _without_labels(template: Json) -> None:
    labels = template["metadata"].get("labels", {})
    template["metadata"]["labels"] = {k: v for k, v in labels.items() if not k.startswith(PREFIX) and k != MANAGED_BY}


def _mount(template: Json, configmap: str) -> None:
    pod = template["spec"]
    pod.setdefault("volumes", []).append({"name": _VOLUME, "configMap": {"name": configmap}})
    pod["containers"][0].setdefault("volumeMounts", []).append({"name": _VOLUME, "mountPath": _SCRIPTS})
