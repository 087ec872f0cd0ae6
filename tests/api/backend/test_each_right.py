"""Each right of deploy/kubernetes taken away from a service account: what Rayflight then says, or why nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import PermissionMissing
from rayflight.kube.access import KubeAccess
from testbed.api import ApiServer
from tests.api.backend.conftest import a_spec, an_owner, make_namespace, with_token
from tests.rights import CLUSTER, Right, rights, roles, without

RAY = "ray.io"
PREFLIGHT_STOPS = [
    *(Right(verb, "rayclusters", RAY) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    Right("watch", "pods"),
    *(Right(verb, "services/proxy") for verb in ("get", "create", "update")),
    *(Right(verb, "secrets") for verb in ("get", "create")),  # of clusters with `auth: token`
]
PREFLIGHT_WARNS = {
    Right("list", "events"): "a cluster that cannot start is not explained",
    Right("watch", "events"): "a cluster that cannot start is not explained",
    Right("get", "pods/log"): "pod logs are not collected",
    Right("get", "pods/proxy"): "Ray's log files are read whole from the head",
    Right("list", "services"): "the head service is not verified",
    Right("list", "resourcequotas"): "a quota that stands in the way is not explained",
    Right("list", "persistentvolumeclaims"): "volumes are not verified",
    Right("list", "jobs", "batch"): "a job of the operator that outlives its cluster is not seen",
    Right("delete", "pods"): "worker pods that fail the verification cannot be replaced",
    Right("list", "nodes", kind=CLUSTER): "what can never fit is not told from what must wait",
    Right("watch", "nodes", kind=CLUSTER): "what can never fit is not told from what must wait",
    Right("get", "persistentvolumeclaims"): "could not check that persistentvolumeclaim checkpoints exists",
    Right("get", "serviceaccounts"): "could not check that serviceaccount trainer exists",
    Right("get", "configmaps"): "could not check that configmap settings exists",
    Right(
        "get", "priorityclasses", "scheduling.k8s.io", CLUSTER
    ): "could not check that priorityclass first-class exists",
}
GAPS = {  # asked for only while it can be what a cluster waits for
    Right("list", "limitranges"): ("limit_ranges", "No permission to list limitranges"),
    Right("list", "pods", kind=CLUSTER): ("foreign_pods", "No permission to list pods"),
}
# A namespace that is not there: the create says it. And the ClusterRole lists pods of every namespace, ours too.
SILENT = [Right("get", "namespaces", kind=CLUSTER), Right("list", "pods")]

_numbers = itertools.count(1)
Take = Callable[[Right], KubeAccess]


@pytest.fixture
def namespace(new_kuberay: ApiServer) -> str:
    """With everything in it that the spec names."""
    name, api = make_namespace(new_kuberay), new_kuberay.client
    objects = {"secrets": "registry", "serviceaccounts": "trainer", "configmaps": "settings"}
    for kind, named in objects.items():
        api.create(f"/api/v1/namespaces/{name}/{kind}", {"metadata": {"name": named}})
    size = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = f"/api/v1/namespaces/{name}/persistentvolumeclaims"
    api.create(claims, {"metadata": {"name": "checkpoints"}, "spec": size})
    above = {"metadata": {"name": "first-class"}, "value": 1}
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", above)
    return name


@pytest.fixture
def all_but(new_kuberay: ApiServer, namespace: str) -> Take:
    """A service account with both roles of rbac.yaml, without one right."""
    return lambda taken: granted(new_kuberay, namespace, taken)


def granted(server: ApiServer, namespace: str, taken: Right) -> KubeAccess:
    api, rbac, name = server.client, "/apis/rbac.authorization.k8s.io/v1", f"flyer-{next(_numbers)}"
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    for kind, role in roles().items():
        scope = "" if kind == CLUSTER else f"/namespaces/{namespace}"
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        api.create(f"{rbac}{scope}/{kind.lower()}s", {"metadata": {"name": name}, "rules": without(role, [taken])})
        binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
        api.create(f"{rbac}{scope}/{kind.lower()}bindings", binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    _, answer = server.client.request("POST", path, {"spec": {"expirationSeconds": 600}})
    return with_token(server, answer["status"]["token"], namespace)


def demanding(**more: Any) -> Any:
    return a_spec(
        auth="token",
        image_pull_secrets=["registry"],
        service_account="trainer",
        priority_class="first-class",
        storage={"claim": "checkpoints"},
        head=head_with_config_map(),
        verification={"on_fail": "replace"},
        **more,
    )


def head_with_config_map() -> dict[str, Any]:
    volume = {"name": "settings", "configMap": {"name": "settings"}}
    return {"extra": {"template": {"spec": {"volumes": [volume]}}}}


def test_the_table_has_every_right():
    told = [*PREFLIGHT_STOPS, *PREFLIGHT_WARNS, *GAPS, *SILENT]
    assert sorted(map(str, told)) == sorted(map(str, rights()))


@pytest.mark.parametrize("right", PREFLIGHT_STOPS, ids=str)
async def test_what_is_needed_is_named_before_anything_is_created(all_but: Take, namespace: str, right: Right):
    async with KubernetesBackend(all_but(right)) as backend:
        with pytest.raises(PermissionMissing) as caught:
            await backend.preflight(demanding(), namespace)
    group = f".{right.group}" if right.group else ""
    assert f"it may not {right.verb} {right.resource}{group}" in str(caught.value)
    assert "grant them with a Role and a RoleBinding" in str(caught.value)


@pytest.mark.parametrize("right", PREFLIGHT_WARNS, ids=str)
async def test_what_is_wanted_is_a_warning_that_says_what_is_lost(all_but: Take, namespace: str, right: Right):
    async with KubernetesBackend(all_but(right)) as backend:
        warnings = await backend.preflight(demanding(), namespace)
    assert len(warnings) == 1
    assert PREFLIGHT_WARNS[right] in warnings[0]


@pytest.mark.parametrize("right", GAPS, ids=str)
async def test_what_is_asked_only_on_need_becomes_a_gap(
    all_but: Take, namespace: str, new_kuberay: ApiServer, right: Right
):
    source, words = GAPS[right]
    async with KubernetesBackend(all_but(right)) as backend:
        assert await backend.preflight(demanding(), namespace) == []
        ref = await backend.create(a_spec(), an_owner(), namespace)
        refuse_pods(new_kuberay, namespace, ref.name)
        gaps = {gap.source: gap.why for gap in (await backend.observe(ref)).gaps}
    assert gaps.keys() == {"ray", source}
    assert words in gaps[source]


@pytest.mark.parametrize("right", SILENT, ids=str)
async def test_what_nothing_depends_on_changes_nothing(all_but: Take, namespace: str, right: Right):
    async with KubernetesBackend(all_but(right)) as backend:
        assert await backend.preflight(demanding(), namespace) == []


def refuse_pods(server: ApiServer, namespace: str, cluster: str) -> None:
    """As the operator reports a pod that was not admitted; and one that waits for a node."""
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{cluster}/status"
    told = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "forbidden"}
    condition = {**told, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    server.client.patch(path, {"status": {"conditions": [condition]}})
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": "worker", "ray.io/group": "gpu"}
    container = {"name": "ray-worker", "image": "ray:test"}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    metadata = {"name": "waiting", "labels": labels}
    server.client.create(pods, {"metadata": metadata, "spec": {"containers": [container]}})
