"""What stands around a cluster is read on need only, so that an ordinary flight needs no right to it."""

from __future__ import annotations

import pytest

from rayflight.backends.kube_around import around
from rayflight.errors import PermissionMissing, RequestRejected

QUEUED = {"kueue.x-k8s.io/queue-name": "gpu"}
GATED = {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
LOOKS = {"status": {"initContainerStatuses": [{"name": "wait-gcs-ready", "state": {"running": {}}}]}}
REFUSED = {"conditions": [{"type": "ReplicaFailure", "status": "True"}]}


class Api:
    """Serves the kinds that it was given; a version that is not served is a 404."""

    def __init__(self, *served: str) -> None:
        self.served = served
        self.asked: list[str] = []

    async def get(self, resource, namespace):
        name = f"{resource.plural}/{resource.version}"
        self.asked.append(name)
        if resource.plural == "networkpolicies":
            raise PermissionMissing("cannot list networkpolicies")
        if name not in self.served:
            error = RequestRejected("not found")
            error.status = 404
            raise error
        return [{"metadata": {"name": resource.plural}}]


def cluster(labels=None, suspend=False, status=None):
    return {"metadata": {"name": "c", "labels": labels or {}}, "spec": {"suspend": suspend}, "status": status or {}}


@pytest.mark.parametrize("made", [None, cluster()])
async def test_an_ordinary_cluster_costs_no_request(made):
    api = Api()
    assert await around(api.get, made, [{"spec": {}}], "ns") == {}
    assert api.asked == []


@pytest.mark.parametrize(("made", "pods"), [(cluster(QUEUED, suspend=True), []), (cluster(QUEUED), [GATED])])
async def test_a_cluster_in_a_queue_brings_its_workloads_under_whatever_version_is_served(made, pods):
    api = Api("workloads/v1beta1", "localqueues/v1beta2")
    found = await around(api.get, made, pods, "ns")
    assert set(found) == {"workloads", "localqueues"}
    assert api.asked.count("workloads/v1beta2") == 1


async def test_a_waiting_cluster_brings_its_place_where_kueue_serves_it():
    api = Api("localqueues/gpu/pendingworkloads/v1beta2")
    assert set(await around(api.get, cluster(QUEUED, suspend=True), [], "ns")) == {"pendingworkloads"}


async def test_a_cluster_that_kueue_let_go_brings_its_workload_alone_or_nobody_would_see_that_it_was_taken():
    api = Api("workloads/v1beta2", "localqueues/v1beta2", "clusterqueues/v1beta2")
    assert set(await around(api.get, cluster(QUEUED), [{"spec": {}}], "ns")) == {"workloads"}


async def test_a_refused_pod_brings_the_limit_ranges():
    assert set(await around(Api("limitranges/v1").get, cluster(status=REFUSED), [{}], "ns")) == {"limitranges"}


async def test_the_cluster_of_a_rayjob_brings_it():
    made = cluster({"ray.io/originated-from-crd": "RayJob"})
    assert set(await around(Api("rayjobs/v1").get, made, [{}], "ns")) == {"rayjobs"}


async def test_what_may_not_be_read_is_said():
    found = await around(Api().get, cluster(), [LOOKS], "ns")
    assert "networkpolicies" in found["networkpolicies"]["error"]
