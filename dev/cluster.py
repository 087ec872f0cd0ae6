"""The Kubernetes cluster seen from outside Rayflight: what the demo, the benchmarks and the tests measure and assert.

Independent of the product on purpose (only its label names are shared): a product that counts its own leftovers
proves nothing. Blocking calls, JSON in and out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from kubernetes.client import ApiException
from kubernetes.config import new_client_from_config

from dev.airflow_client import Run
from rayflight.labels import AIRFLOW, MANAGED_BY, MANAGER, RUN, digest

Json = dict[str, Any]

RAY = "/apis/ray.io/v1"
# Every kind that Rayflight or KubeRay makes for a cluster, by the API that serves it.
OWNED_KINDS = {
    "rayclusters": RAY,
    "rayjobs": RAY,
    "pods": "/api/v1",
    "services": "/api/v1",
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "serviceaccounts": "/api/v1",
    "jobs": "/apis/batch/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
}
_OF_A_RAY_CLUSTER = "ray.io/cluster"


class Cluster:
    """One Kubernetes cluster, through a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._api = new_client_from_config(str(kubeconfig))

    def request(self, method: str, path: str, body: Json | None = None, query: Mapping[str, str] | None = None) -> Json:
        """One request; raises kubernetes.client.ApiException on any refusal."""
        return dict(self._json(method, path, body, query) or {})

    def ray_jobs(self, namespace: str, cluster: str) -> list[Json]:
        """What Ray's own job list says, through the API server."""
        service = f"/api/v1/namespaces/{namespace}/services/{cluster}-head-svc:dashboard/proxy"
        return list(self._json("GET", f"{service}/api/jobs/", None, None))

    def log(self, namespace: str, pod: str, container: str) -> list[tuple[float, str]]:
        """The container's log so far: when each line was written (seconds since 1970), and what it says."""
        path, query = f"/api/v1/namespaces/{namespace}/pods/{pod}/log", {"container": container, "timestamps": "true"}
        written = (line.partition(" ") for line in self._raw("GET", path, None, query).decode().splitlines())
        return [(datetime.fromisoformat(at).timestamp(), text) for at, _, text in written]

    def _json(self, method: str, path: str, body: Json | None, query: Mapping[str, str] | None) -> Any:
        answer = self._raw(method, path, body, query)
        return json.loads(answer) if answer else None

    def _raw(self, method: str, path: str, body: Json | None, query: Mapping[str, str] | None) -> bytes:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self._api.call_api(
            path,
            method,
            query_params=list((query or {}).items()),
            header_params={"Content-Type": kind, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
            _request_timeout=(5, 30),
        )
        return bytes(answer.data or b"")

    def find(self, path: str) -> Json | None:
        """The object, or None when there is none."""
        try:
            return self.request("GET", path)
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, selector: str = "") -> list[Json]:
        """The items of a collection."""
        query = {"labelSelector": selector} if selector else None
        return list(self.request("GET", path, query=query)["items"])

    def delete(self, path: str, **options: Any) -> None:
        """Delete it; nothing there is fine."""
        try:
            self.request("DELETE", path, options or None)
        except ApiException as error:
            if error.status != 404:
                raise

    def pods(self, namespace: str, selector: str = "") -> list[Json]:
        """Pods of a namespace."""
        return self.items(f"/api/v1/namespaces/{namespace}/pods", selector)

    def create_namespace(self, name: str) -> None:
        """Create it, unless it is there."""
        try:
            self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        except ApiException as error:
            if error.status != 409:
                raise

    def delete_namespace(self, name: str) -> None:
        """Ask for its deletion; does not wait."""
        self.delete(f"/api/v1/namespaces/{name}")

    def owned_by(self, run: Run, instance: str) -> list[str]:
        """Everything anywhere that says it belongs to this run, in words."""
        return self._labelled(f"{MANAGED_BY}={MANAGER},{RUN}={digest(instance, run.dag_id, run.run_id)}")

    def owned_by_airflow(self, instance: str) -> list[str]:
        """Everything anywhere that says it belongs to any run of this Airflow, in words."""
        return self._labelled(f"{MANAGED_BY}={MANAGER},{AIRFLOW}={digest(instance)}")

    def of_ray(self, namespace: str) -> list[str]:
        """Everything of any RayCluster in the namespace, in words, whoever labelled it."""
        clusters = [_words("rayclusters", item) for item in self.items(f"{RAY}/namespaces/{namespace}/rayclusters")]
        return sorted({*clusters, *self._labelled(_OF_A_RAY_CLUSTER, namespace)})

    def _labelled(self, selector: str, namespace: str | None = None) -> list[str]:
        scope = f"/namespaces/{namespace}" if namespace else ""
        found: list[str] = []
        for kind, api in OWNED_KINDS.items():
            found += [_words(kind, item) for item in self.items(f"{api}{scope}/{kind}", selector)]
        return found


def _words(kind: str, item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    since = f" (Terminating since {metadata['deletionTimestamp']})" if "deletionTimestamp" in metadata else ""
    return f"{kind.removesuffix('s')} {metadata['namespace']}/{metadata['name']}{since}"


def is_ready(pod: Mapping[str, Any]) -> bool:
    """True when Kubernetes calls the pod Ready."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def holds_resources(pod: Mapping[str, Any]) -> bool:
    """False for a pod that has run to its end and merely lies there to be read."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def warnings(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Warning events of a namespace, for a person who looks at a failed test."""
    for event in cluster.items(f"/api/v1/namespaces/{namespace}/events"):
        if event.get("type") == "Warning":
            involved = event["involvedObject"]
            yield f"{involved['kind']} {involved['name']}: {event['reason']}: {event['message']}"
