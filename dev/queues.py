"""Kueue's objects for tests and drills: a ClusterQueue with its LocalQueue, priorities; what Kueue says of a cluster.

Blocking calls through ``Cluster``, independent of the product. Whoever makes queues clears them: a ClusterQueue belongs
to no namespace and does not go with one.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kubernetes.client import ApiException

from dev.airflow_home import ROOT
from dev.cluster import Cluster, Json

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
FLAVOR = "default-flavor"
_KINDS = {
    "resourceflavors": "ResourceFlavor",
    "workloadpriorityclasses": "WorkloadPriorityClass",
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
}
PRIORITIES = {"low": 100, "high": 1000}  # WorkloadPriorityClasses


@contextmanager
def real_kueue(*, pods_ready: int | None = None) -> Iterator[None]:
    """Kueue in the testbed that is up, taken out again at the end (everybody else flies without)."""
    options = ["--kueue"] if pods_ready is None else ["--kueue-pods-ready", str(pods_ready)]
    try:
        _testbed("up", *options)
        yield
    finally:
        _testbed("up", "--no-kueue")


@dataclass
class Queues:
    """The queues of one namespace; ClusterQueues are named after it."""

    cluster: Cluster
    namespace: str
    made: list[str] = field(default_factory=list)

    def make(self, name: str, *, gpus: int = 2, hold: bool = False) -> str:
        """A LocalQueue and its ClusterQueue, in which a higher priority takes the place of a lower one."""
        self._create("resourceflavors", {"metadata": {"name": FLAVOR}, "spec": {}})
        for priority, value in PRIORITIES.items():
            self._create("workloadpriorityclasses", {"metadata": {"name": priority}, "value": value})
        quota = {"cpu": "4", "memory": "24Gi", "nvidia.com/gpu": str(gpus)}
        covered = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
        spec = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": list(quota), "flavors": [{"name": FLAVOR, "resources": covered}]}],
            "stopPolicy": "Hold" if hold else "None",
        }
        whole = self.of(name)
        self._create("clusterqueues", {"metadata": {"name": whole}, "spec": spec})
        self._create(
            "localqueues", {"metadata": {"name": name}, "spec": {"clusterQueue": whole}}, namespace=self.namespace
        )
        self.made.append(name)
        return name

    def of(self, name: str) -> str:
        """The ClusterQueue behind that LocalQueue."""
        return f"{self.namespace}-{name}"

    def let_go(self, name: str) -> None:
        """End the hold of a ClusterQueue."""
        self.cluster.request("PATCH", f"{KUEUE}/clusterqueues/{self.of(name)}", {"spec": {"stopPolicy": "None"}})

    def clear(self) -> None:
        """Delete all that was made; once, for Kueue lets a queue go when nothing is in it any more."""
        for name in self.made:
            self.cluster.delete(f"{KUEUE}/namespaces/{self.namespace}/localqueues/{name}")
            self.cluster.delete(f"{KUEUE}/clusterqueues/{self.of(name)}")

    def _create(self, plural: str, body: Json, *, namespace: str | None = None) -> None:
        """Kueue's webhook may take a moment after its start."""
        space = f"/namespaces/{namespace}" if namespace else ""
        body = {"apiVersion": KUEUE.removeprefix("/apis/"), "kind": _KINDS[plural], **body}
        deadline = time.monotonic() + 10
        while True:
            try:
                self.cluster.request("POST", f"{KUEUE}{space}/{plural}", body)
            except ApiException as error:
                if error.status == 409:
                    return
                if error.status < 500 or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return


def _testbed(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "testbed", *arguments], cwd=ROOT, check=True)
