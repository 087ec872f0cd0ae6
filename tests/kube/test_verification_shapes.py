"""Faults that a cluster is born with, and those that need one of another shape: a slow rank. A cluster each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed import faults_inside
from tests.kube.flights import Flights
from tests.kube.held import Held, raw, shape

OPEN = "open-dashboard"
ONE = {"replicas": 1, "spread": "none"}


@pytest.fixture
def hold(flights: Flights, archive: Path, duty: tuple[Any, Any]) -> Iterator[Callable[..., Held]]:
    """Makes a cluster of a shape, and ends it with the test."""
    flights.client.wait_for_dag("verify_held")
    made: list[Held] = []

    def make(name: str, *, asked: Mapping[str, Any] | None = None, **changes: Any) -> Held:
        made.append(Held(flights, archive, duty, name, asked or shape(flights.place.image, **changes)))
        return made[-1].take()

    yield make
    for held in made:
        held.drop()


@contextmanager
def told_once(held: Held, row: str, kind: str = "worker") -> Iterator[None]:
    """Exactly this row fails and exactly one message is sent, which names a pod of that kind and its node."""
    before = held.alerts()
    yield
    assert {it["id"] for it in held.failed()} == {row}, [(it["id"], it["observed"]) for it in held.failed()]
    (alert,) = held.alerts()[len(before) :]
    assert alert["cause"] == f"verification-{row}"
    places = {(pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in held.pods(kind)}
    assert (alert["where"]["pod"], alert["where"]["node"]) in places


@pytest.mark.full
def test_one_gpu_fewer_than_ray_claims(hold: Callable[..., Held], flights: Flights):
    held = hold("claims", asked=raw(flights.place.image, gpu={"num-gpus": "2"}))
    with told_once(held, "gpu-count"):
        held.verify("failed")
    assert "pod limit 1, Ray 2, container 1" in held.failed()[0]["observed"]
    (pod,) = held.pods()
    assert held.device(pod) in str(held.alerts()[-1]["where"]["gpus"])


@pytest.mark.full
def test_a_head_that_claims_a_gpu(hold: Callable[..., Held], flights: Flights):
    held = hold("head", asked=raw(flights.place.image, head={"num-gpus": "1"}))
    with told_once(held, "head-offers-no-gpu", "head"):
        held.verify("failed")


@pytest.mark.full
def test_shared_memory_larger_than_the_memory_limit(hold: Callable[..., Held]):
    held = hold("memory", group={**ONE, "shm_size": "4Gi"})
    with told_once(held, "shared-memory"):
        held.verify("failed")
    assert "asked for: 4 GiB" in held.failed()[0]["observed"]


@pytest.mark.full
@pytest.mark.timeout(300)
def test_one_slow_rank(hold: Callable[..., Held]):
    """Two CPUs that all ranks share have no steady speed: a link is slowed down so much that nothing else matters."""
    four = {"gpus": 0, "replicas": 4, "spread": "none", "node_selector": {}, "tolerations": [{"operator": "Exists"}]}
    held = hold("slow", simulated=False, group=four, verification={"straggler": "fail"})
    slow = held.pods()[2]
    name, node = slow["metadata"]["name"], slow["spec"]["nodeName"]
    with told_once(held, "stragglers"), faults_inside.slow_link(slow, "ray-worker", 100):
        held.verify("failed")
    assert f"in pod {name} on node {node}: GB/s from the rank before" in held.failed()[0]["observed"]
    assert held.alerts()[-1]["where"]["pod"] == name


def test_a_dashboard_with_a_token_refuses_strangers(hold: Callable[..., Held]):
    held = hold("token", group=ONE, auth="token")
    held.verify("success")
    (row,) = [row for row in held.rows() if row["id"] == "token-required"]
    assert (row["verdict"], row["observed"]) == ("passed", "HTTP 401")


@pytest.mark.full
def test_a_dashboard_that_is_open_although_a_token_was_asked_for(hold: Callable[..., Held], flights: Flights):
    """As an image whose profile switches it off: bash reads this file before it starts Ray."""
    quiet = {"metadata": {"name": OPEN}, "data": {"env.sh": "export RAY_AUTH_MODE=disabled\nunset RAY_AUTH_TOKEN\n"}}
    flights.cluster.request("POST", f"/api/v1/namespaces/{flights.namespace}/configmaps", quiet)
    held = hold(
        "open",
        auth="token",
        group=ONE,
        env={"BASH_ENV": "/etc/fault/env.sh"},
        volumes=[{"name": "fault", "configMap": {"name": OPEN}}],
        volume_mounts=[{"name": "fault", "mountPath": "/etc/fault"}],
    )
    with told_once(held, "token-required", "head"):
        held.verify("failed")
    assert "HTTP 200" in held.failed()[0]["observed"]
