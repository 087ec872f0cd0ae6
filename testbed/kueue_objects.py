"""What Kueue is told and what has to exist for it in the API. Pure data; nothing of the product."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from testbed.client import Json
from testbed.network import API_ADDRESS

NAME = "kueue"
NAMESPACE = "kueue-system"
HEALTH_PORT, METRICS_PORT, WEBHOOK_PORT, VISIBILITY_PORT = 18081, 18443, 9443, 18082
SERVICE = "kueue-visibility-server"
API_SERVICES = ("v1beta1.visibility.kueue.x-k8s.io", "v1beta2.visibility.kueue.x-k8s.io")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
_FRAMEWORKS = ("batch/job", "ray.io/raycluster", "ray.io/rayjob")
_SUBJECTS = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": NAME}]


@dataclass(frozen=True)
class PodsReady:
    """Kueue's waitForPodsReady: after ``seconds`` it takes a cluster out whose pods are not all ready."""

    seconds: int
    backoff: int = 10  # seconds before the first return; doubles
    limit: int = 2  # returns before it gives up


def configuration(pods_ready: PodsReady | None) -> Json:
    """Kueue's own configuration. Everything with a queue label is managed, and nothing else."""
    found: Json = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{API_ADDRESS}:{HEALTH_PORT}"},
        "metrics": {"bindAddress": f"{API_ADDRESS}:{METRICS_PORT}"},
        "webhook": {"host": API_ADDRESS, "port": WEBHOOK_PORT, "certDir": "/certs"},
        "visibilityServer": {"bindAddress": API_ADDRESS, "bindPort": VISIBILITY_PORT},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "manageJobsWithoutQueueName": False,
        "integrations": {"frameworks": list(_FRAMEWORKS)},
    }
    if pods_ready is not None:
        found["waitForPodsReady"] = {
            "timeout": f"{pods_ready.seconds}s",
            "blockAdmission": False,
            "requeuingStrategy": {
                "timestamp": "Eviction",
                "backoffBaseSeconds": pods_ready.backoff,
                "backoffLimitCount": pods_ready.limit,
            },
        }
    return found


def parse_many(text: str) -> Iterator[Json]:
    """JSON objects one after the other, or Lists of them, as kubectl prints several."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        found: Any
        found, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        yield from found["items"] if found["kind"] == "List" else (found,)


def api_service(name: str) -> Json:
    version, _, group = name.partition(".")
    return {
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,  # as Kueue's own manifests have it
            "service": {"name": SERVICE, "namespace": NAMESPACE},
        },
    }


def objects() -> list[tuple[str, Json]]:
    """Namespace, rights, and the way from the API server to the visibility server, whose pod is a host process."""
    space = f"/api/v1/namespaces/{NAMESPACE}"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    labels = {"kubernetes.io/service-name": SERVICE, "endpointslice.kubernetes.io/managed-by": "rayflight-testbed"}
    reader = {
        "metadata": {"name": "kueue-visibility-server-auth-reader"},
        "roleRef": _role("Role", "extension-apiserver-authentication-reader"),
        "subjects": _SUBJECTS,
    }
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "update", "watch"]}
    return [
        ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        *((f"{RBAC}/clusterrolebindings", _bound(role)) for role in ("manager-role", "metrics-auth-role")),
        (f"{RBAC}/namespaces/{NAMESPACE}/roles", {"metadata": {"name": "secrets"}, "rules": [secrets]}),
        (f"{RBAC}/namespaces/{NAMESPACE}/rolebindings", _bound("secrets", "Role")),
        (f"{RBAC}/namespaces/kube-system/rolebindings", reader),
        (
            f"{space}/services",
            {
                "metadata": {"name": SERVICE},
                "spec": {"ports": [{"name": "https", "port": 443, "targetPort": VISIBILITY_PORT}]},
            },
        ),
        (
            slices,
            {
                "metadata": {"name": SERVICE, "labels": labels},
                "addressType": "IPv4",
                "ports": [{"name": "https", "port": VISIBILITY_PORT, "protocol": "TCP"}],
                "endpoints": [{"addresses": [API_ADDRESS], "conditions": {"ready": True}}],
            },
        ),
    ]


def _role(kind: str, name: str) -> Json:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def _bound(role: str, kind: str = "ClusterRole") -> Json:
    return {
        "metadata": {"name": f"rayflight-testbed:{NAME}-{role}"},
        "roleRef": _role(kind, f"{NAME}-{role}" if kind == "ClusterRole" else role),
        "subjects": _SUBJECTS,
    }
