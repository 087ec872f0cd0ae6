"""A team's service account on the testbed: deploy/kubernetes as it stands, and single rights taken away from it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.airflow_process import wait_until
from dev.cluster import Cluster
from tests.rights import DEPLOY, Right, roles, without

NAMESPACE = "ray"
ACCOUNT = "airflow-worker"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PATHS = {"Role": f"{_RBAC}/namespaces/{NAMESPACE}/roles", "ClusterRole": f"{_RBAC}/clusterroles"}


@dataclass
class Team:
    """The service account and its two roles."""

    cluster: Cluster
    kubectl: Path
    kubeconfig: Path

    def set_up(self) -> None:
        """Apply the manifests and write the account's kubeconfig."""
        self.cluster.create_namespace("airflow")
        accounts = "/api/v1/namespaces/airflow/serviceaccounts"
        if self.cluster.find(f"{accounts}/{ACCOUNT}") is None:
            self.cluster.request("POST", accounts, {"metadata": {"name": ACCOUNT}})
        self._run("apply", "--kustomize", str(DEPLOY))
        token = self.cluster.request("POST", f"{accounts}/{ACCOUNT}/token", {"spec": {"expirationSeconds": 7200}})
        config = json.loads(self.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(config))

    def clear(self) -> None:
        """Remove all of it."""
        self._run("delete", "--kustomize", str(DEPLOY), "--ignore-not-found", "--wait=false")
        self.cluster.delete_namespace("airflow")
        wait_until(lambda: self.cluster.find(f"/api/v1/namespaces/{NAMESPACE}") is None, 60, every=1)

    @contextmanager
    def without(self, *taken: Right) -> Iterator[None]:
        """The roles without these rights, as long as the block."""
        kinds = {right.kind for right in taken}
        try:
            for kind in kinds:
                self._write(kind, [right for right in taken if right.kind == kind])
            self._wait(taken, allowed=False)
            yield
        finally:
            for kind in kinds:
                self._write(kind, [])
            self._wait(taken, allowed=True)

    def _write(self, kind: str, taken: list[Right]) -> None:
        role = roles()[kind]
        body = {"rules": without(role, taken)}
        self.cluster.request("PATCH", f"{_PATHS[kind]}/{role['metadata']['name']}", body)

    def _wait(self, rights_: tuple[Right, ...], *, allowed: bool) -> None:
        """RBAC is judged from a cache that is a moment old."""
        for right in rights_:
            assert wait_until(lambda right=right: self._may(right) == allowed, 10), str(right)  # type: ignore[misc]

    def _may(self, right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes: dict[str, Any] = {"verb": right.verb, "resource": resource, "group": right.group}
        attributes |= {"subresource": subresource} if subresource else {}
        attributes |= {"namespace": NAMESPACE} if right.kind == "Role" else {}
        review = {"spec": {"user": f"system:serviceaccount:airflow:{ACCOUNT}", "resourceAttributes": attributes}}
        answer: Mapping[str, Any] = self.cluster.request(
            "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review
        )
        return bool(answer["status"]["allowed"])

    def _run(self, *words: str) -> None:
        command = [str(self.kubectl), f"--kubeconfig={self.cluster.kubeconfig}", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
