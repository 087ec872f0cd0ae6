"""One cluster, broken in one way after the other: each time exactly the right row fails, is named, and told once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dev.airflow_process import wait_until
from dev.cluster import Json
from testbed import faults_inside, gpu
from testbed.errors import TestbedError
from testbed.faults import Faults
from testbed.image import RAY_IMAGE
from testbed.paths import Layout
from testbed.volumes import STORAGE_CLASS
from tests.kube.flights import Flights
from tests.kube.held import Held, shape

CLAIM = "shared"
MOUNT = "/mnt/rayflight"
WORKER = "ray-worker"
LABEL = "nvidia.com/gpu.present"
OTHER = "SIMULATED NVIDIA H100"
TWIN = "docker.io/rayflight/ray-sim:twin"


@pytest.fixture(scope="module")
def held(flights: Flights, archive: Path, duty: tuple[Any, Any]) -> Iterator[Held]:
    flights.client.wait_for_dag("verify_held")
    flights.cluster.request("POST", f"/api/v1/namespaces/{flights.namespace}/persistentvolumeclaims", _claim())
    selected = {LABEL: "true", "nvidia.com/gpu.product": gpu.LABELS["nvidia.com/gpu.product"]}
    asked = shape(flights.place.image, group={"node_selector": selected}, storage={"claim": CLAIM})
    made = Held(flights, archive, duty, "faults", asked).take()
    yield made
    made.drop()


def _claim() -> Json:
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": STORAGE_CLASS}
    return {"metadata": {"name": CLAIM}, "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}}}


@dataclass(frozen=True)
class Place:
    """Where the fault is: what the alert must name. ``other`` is the place that shares it."""

    pod: str
    node: str
    device: str = ""
    other: Place | None = None

    def is_named(self, where: Json) -> bool:
        """Pod, node and device stand in the alert."""
        here = (where["pod"], where["node"]) == (self.pod, self.node) and (self.device or "") in str(where["gpus"])
        return here or (self.other is not None and self.other.is_named(where))


class Breaker:
    """Each method breaks one thing for as long as its block lasts, and says where."""

    def __init__(self, held: Held) -> None:
        self.held, self.faults, self.layout = held, Faults(Layout.full()), Layout.full()
        self.first, self.second = held.pods()
        self.cluster = held.flights.cluster

    def _place(self, pod: Json, device: str = "") -> Place:
        return Place(str(pod["metadata"]["name"]), str(pod["spec"]["nodeName"]), device)

    def _node(self, name: str) -> Json:
        return self.cluster.request("GET", f"/api/v1/nodes/{name}")

    def _offers(self, node: str, count: int) -> bool:
        return int(self._node(node)["status"]["allocatable"].get(gpu.RESOURCE, 0)) == count

    @contextmanager
    def device_unhealthy(self) -> Iterator[Place]:
        device = self.held.device(self.second)
        node, index = gpu.find(device)
        with self.faults.make_gpu_unhealthy(node, index):
            assert wait_until(lambda: self._health(device) == "Unhealthy", 40, every=0.5)
            yield self._place(self.second, device)
        assert wait_until(lambda: self._health(device) == "Healthy", 40, every=0.5)
        assert wait_until(lambda: self._offers(node, gpu.PER_NODE), 40, every=0.5)

    def _health(self, device: str) -> str:
        statuses = [status for pod in self.held.pods() for status in pod["status"]["containerStatuses"]]
        told = [it for status in statuses for each in status["allocatedResourcesStatus"] for it in each["resources"]]
        return next(str(it["health"]) for it in told if it["resourceID"] == device)

    @contextmanager
    def plugin_gone(self) -> Iterator[Place]:
        node = str(self.first["spec"]["nodeName"])
        with self.faults.stop_device_plugin(node):
            assert wait_until(lambda: self._offers(node, 0), 40, every=0.5)
            yield self._place(self.first)
        assert wait_until(lambda: self._offers(node, gpu.PER_NODE), 40, every=0.5)

    @contextmanager
    def same_uuid_twice(self) -> Iterator[Place]:
        device, other = self.held.device(self.first), self.held.device(self.second)
        with self.faults.make_gpu_tell(*gpu.find(other), {"uuid": device}):
            yield replace(self._place(self.second, device), other=self._place(self.first, device))

    @contextmanager
    def wrong_product(self) -> Iterator[Place]:
        with ExitStack() as both:
            for pod in (self.first, self.second):
                both.enter_context(self.faults.make_gpu_tell(*gpu.find(self.held.device(pod)), {"name": OTHER}))
            first, second = (self._place(pod, self.held.device(pod)) for pod in (self.first, self.second))
            yield replace(first, other=second)

    @contextmanager
    def node_without_the_label(self) -> Iterator[Place]:
        node = str(self.second["spec"]["nodeName"])
        self._label(node, None)
        try:
            yield self._place(self.second)
        finally:
            self._label(node, gpu.LABELS[LABEL])

    def _label(self, node: str, value: str | None) -> None:
        self.cluster.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {LABEL: value}}})

    @contextmanager
    def storage_one_rank_cannot_write(self) -> Iterator[Place]:
        with faults_inside.make_read_only(self.second, MOUNT, WORKER):
            yield self._place(self.second)

    @contextmanager
    def dns_broken_in_one_pod(self) -> Iterator[Place]:
        """Ray's processes find the head by its name: none starts there any more, not even to say so."""
        with faults_inside.break_dns(self.first, WORKER):
            yield self._place(self.first)

    @contextmanager
    def different_image(self) -> Iterator[Place]:
        place = self._place(self.second)
        with faults_inside.add_twin_image(self.layout, place.node, RAY_IMAGE, TWIN):
            self._set_image(place.pod, TWIN)
            yield place
            self._set_image(place.pod, RAY_IMAGE)

    def _set_image(self, pod: str, image: str) -> None:
        path = f"/api/v1/namespaces/{self.held.flights.namespace}/pods/{pod}"
        (before,) = [it for it in self.held.pods() if it["metadata"]["name"] == pod]
        count = before["status"]["containerStatuses"][0]["restartCount"]
        containers = [{**it, "image": image} for it in before["spec"]["containers"]]
        self.cluster.request("PATCH", path, {"spec": {"containers": containers}})

        def restarted() -> bool:
            status = self.cluster.request("GET", path)["status"]["containerStatuses"][0]
            return bool(status["restartCount"] > count and status["ready"])

        assert wait_until(restarted, 90, every=0.5)
        self.held.again_ready()


Break = Callable[[Breaker], AbstractContextManager[Place]]
FAULTS = [
    pytest.param(Breaker.device_unhealthy, "gpu-healthy", id="device-unhealthy"),
    pytest.param(Breaker.same_uuid_twice, "gpu-uuids-unique", id="same-UUID-in-two-pods"),
    pytest.param(Breaker.node_without_the_label, "nodes-match", id="node-without-the-label"),
    pytest.param(Breaker.storage_one_rank_cannot_write, "storage-shared", id="storage-one-rank-cannot-write"),
    pytest.param(Breaker.plugin_gone, "gpu-allocatable", id="plugin-gone", marks=pytest.mark.full),
    pytest.param(Breaker.wrong_product, "gpu-product", id="wrong-product", marks=pytest.mark.full),
    pytest.param(Breaker.dns_broken_in_one_pod, "probe-ran", id="DNS-broken-in-one-pod", marks=pytest.mark.full),
    pytest.param(Breaker.different_image, "same-image", id="different-image", marks=pytest.mark.full),
]


def test_a_good_cluster_passes_and_nobody_is_told(held: Held):
    before = len(held.alerts())
    run = held.verify("success")
    rows = held.rows()
    assert [row for row in rows if row["verdict"] in ("failed", "unknown", "warned")] == []
    assert {row["level"] for row in rows} == {1, 2, 3, 4}
    assert len(held.alerts()) == before
    assert held.flights.client.xcom(run, "verify")["verdict"] == "passed"


@pytest.mark.parametrize(("breaks", "row"), FAULTS)
def test_a_fault_fails_its_row_alone_and_is_told_once(held: Held, breaks: Break, row: str):
    before = held.alerts()
    with breaks(Breaker(held)) as place:
        held.verify("failed")
    assert {it["id"] for it in held.failed()} == {row}, [(it["id"], it["observed"]) for it in held.failed()]
    (alert,) = held.alerts()[len(before) :]
    assert alert["cause"] == f"verification-{row}"
    assert place.is_named(alert["where"]), (place, alert["where"])


@pytest.mark.full
@pytest.mark.timeout(400)
def test_a_probe_that_hangs_is_ended_and_its_place_named(held: Held):
    breaker, before = Breaker(held), held.alerts()
    pod = breaker.second
    run = held.start()
    stopped = _stop_the_rank(breaker, pod, time.monotonic() + 60)
    held.ends(run, "failed", 200)
    assert stopped
    assert {it["id"] for it in held.failed()} == {"probe-ran"}
    (row,) = held.failed()
    assert "did not answer within" in row["evidence"]
    (alert,) = held.alerts()[len(before) :]
    assert (alert["where"]["pod"], alert["where"]["node"]) == (pod["metadata"]["name"], pod["spec"]["nodeName"])


def _stop_the_rank(breaker: Breaker, pod: Json, until: float) -> bool:
    """As soon as it is there: a rank in uninterruptible sleep is seen the same way."""
    name = str(pod["metadata"]["name"])
    while time.monotonic() < until:
        try:
            breaker.faults.signal_in_pod(breaker.held.flights.namespace, name, r"ray::Rank", number=signal.SIGSTOP)
            return True
        except TestbedError:
            time.sleep(0.1)
    return False


@pytest.mark.timeout(300)
def test_replace_heals_a_cluster_with_one_bad_gpu_without_a_person(held: Held):
    before = held.alerts()
    sick = held.pods()[1]
    device = held.device(sick)
    with Faults(Layout.full()).make_gpu_unhealthy(*gpu.find(device)):
        breaker = Breaker(held)
        assert wait_until(lambda: breaker._health(device) == "Unhealthy", 40, every=0.5)
        run = held.verify("success", on_fail="replace")
        log = held.flights.client.log(run, "verify")
        assert f"Replacing pod {sick['metadata']['name']} on node {sick['spec']['nodeName']}" in log
        now = held.pods()
        assert sick["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in now}
        assert device not in {held.device(pod) for pod in now}
        assert [row for row in held.rows() if row["verdict"] in ("failed", "unknown")] == []
    assert held.alerts() == before
