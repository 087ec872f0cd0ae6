"""A cluster that a test makes and keeps: verified by real Airflow runs as often as it likes, broken in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from dev.airflow_client import Run
from dev.airflow_process import wait_until
from dev.cluster import Json
from rayflight.archive import Archive
from rayflight.backends.base import ClusterRef
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.kube.access import KubeAccess
from rayflight.labels import Owner
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.provision import provision
from rayflight.lifecycle.ready import wait_ready
from rayflight.lifecycle.teardown import tear_down
from rayflight.manifests import build
from rayflight.specs import ClusterSpec, load_cluster
from tests.kube.flights import Flights

T = TypeVar("T")
OWNER = Owner(airflow="none", dag_id="held", run_id="raw", group="flight")
SECONDS = timedelta(seconds=240)


@dataclass
class Held:
    """One cluster of a shape, its pods, and what its last verification said."""

    flights: Flights
    archive: Path
    duty: tuple[Any, Any]
    name: str
    shape: Mapping[str, Any]
    ref: ClusterRef | None = None
    said: list[str] = field(default_factory=list)

    @property
    def flight(self) -> Flight:
        owner = Owner(airflow=self.flights.instance, dag_id="held", run_id=self.name, group="flight")
        folder = f"{self.archive.as_uri()}/held/{self.name}/flight"
        return Flight(owner=owner, namespace=self.flights.namespace, spec=dict(self.shape), archive=folder)

    def take(self) -> Held:
        """Create it and wait until it is ready."""

        async def made(tools: Tools) -> ClusterRef:
            await tools.archive.open({"held": self.name})
            ref = await provision(tools, self.flight)
            await wait_ready(tools, self.flight, ref, deadline=datetime.now(UTC) + SECONDS)
            return ref

        self.ref = self._run(made)
        return self

    def drop(self) -> None:
        """Delete it and wait until it is gone."""
        self._run(lambda tools: tear_down(tools, self.flight, failed=False, deadline=datetime.now(UTC) + SECONDS))

    def again_ready(self) -> None:
        """After a fault that took a Ray node away."""
        assert self.ref
        ref = self.ref
        self._run(lambda tools: wait_ready(tools, self.flight, ref, deadline=datetime.now(UTC) + SECONDS))

    def _run(self, recipe: Callable[[Tools], Awaitable[T]]) -> T:
        async def whole() -> T:
            async with KubernetesBackend(KubeAccess(kubeconfig=str(self.flights.place.kubeconfig))) as backend:
                root = self.archive / "held" / self.name / "flight"
                async with Tools(backend=backend, archive=Archive(root, url=root.as_uri()), say=self._say) as tools:
                    return await recipe(tools)

        return asyncio.run(whole())

    def _say(self, message: str, /, *args: object) -> None:
        self.said.append(message % args if args else message)

    def verify(self, state: str, **conf: Any) -> Run:
        """One verification by a run of Airflow that ends in this state."""
        run = self.start(**conf)
        self.ends(run, state)
        return run

    def start(self, **conf: Any) -> Run:
        """Begin one verification."""
        run = self.flights.client.trigger("verify_held", {"flight": self.flight.to_dict(), **conf})
        self.flights.runs.append(run)
        return run

    def ends(self, run: Run, state: str, seconds: float = 200) -> None:
        """Wait for it."""
        found = self.flights.client.wait_for_run(run, seconds)
        assert found == state, f"{found}\n{self.flights.client.log(run, 'verify')}\n{self.failed()}"

    def rows(self) -> list[dict[str, Any]]:
        """The matrix of the last verification."""
        assert self.ref
        kept = self.archive / "held" / self.name / "flight" / "attempt-1" / self.ref.name / "verification.json"
        return list(json.loads(kept.read_text())["checks"])

    def failed(self) -> list[dict[str, Any]]:
        """Rows that failed."""
        return [row for row in self.rows() if row["verdict"] == "failed"]

    def pods(self, kind: str = "worker") -> list[Json]:
        """The cluster's pods of that kind, by their Kubernetes node."""
        assert self.ref
        selector = f"ray.io/cluster={self.ref.name},ray.io/node-type={kind}"
        found = self.flights.cluster.pods(self.flights.namespace, selector)
        return sorted(found, key=lambda pod: (str(pod["spec"].get("nodeName")), str(pod["metadata"]["name"])))

    def device(self, pod: Json) -> str:
        """The UUID of the one device that the kubelet gave to the pod."""
        fresh = next(it for it in self.pods() if it["metadata"]["uid"] == pod["metadata"]["uid"])
        (status,) = fresh["status"]["containerStatuses"]
        (resource,) = status["allocatedResourcesStatus"]
        (device,) = resource["resources"]
        return str(device["resourceID"])

    def alerts(self) -> list[dict[str, Any]]:
        """Problems told to the webhook so far; the mail server was told the same."""
        mail, hook = self.duty
        told = [body for _, _, body in hook.posts if body["kind"] == "problem"]
        assert wait_until(lambda: len(mail.mails) == len(hook.posts), 20), (len(mail.mails), len(hook.posts))
        return told


def raw(image: str, **params: Mapping[str, str]) -> dict[str, Any]:
    """The same with one worker pod as a raw manifest, with what a shape refuses: flags of ``ray start`` by group."""
    asked = shape(image, group={"replicas": 1, "spread": "none"})
    spec = build(ClusterSpec.model_validate(asked), OWNER, "raw")["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["rayStartParams"] |= params.get(group.get("groupName", "head"), {})
    return {"simulated": True, "raw_manifest": {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}}


def shape(image: str, **changes: Any) -> dict[str, Any]:
    """The testbed's shape with these fields changed; ``group`` changes those of its worker group."""
    given = load_cluster("testbed-2x1").to_dict() | {"image": image}
    group = {**given["groups"][0], **changes.pop("group", {})}
    return {**given, "groups": [group], **changes}
