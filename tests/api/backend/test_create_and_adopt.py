"""Creating is strict, adopting is only for this very attempt, and nothing half-made is left."""

from __future__ import annotations

import asyncio

import pytest

from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import ClusterGone, ForeignObject, InvalidSpec
from rayflight.kube.access import KubeAccess
from testbed.api import ApiServer
from tests.api.backend.conftest import a_spec, an_owner, make_namespace, nothing_remains

CLUSTERS = "/apis/ray.io/v1/namespaces/{}/rayclusters"


async def test_an_unknown_field_is_named_and_nothing_is_created(backend: KubernetesBackend, namespace: str):
    with pytest.raises(InvalidSpec, match=r"does not know spec\.headGroupSpec\.zzz"):
        await backend.create(a_spec(head={"extra": {"zzz": 1}}), an_owner(), namespace)
    assert await backend.find(namespace, "") == []


async def test_a_wrong_type_is_named_before_anything_is_created(backend: KubernetesBackend, namespace: str):
    with pytest.raises(InvalidSpec, match="enableInTreeAutoscaling"):
        await backend.preflight(a_spec(extra={"enableInTreeAutoscaling": "maybe"}), namespace)


async def test_a_field_that_kuberay_1_5_does_not_know_is_named(old_kuberay: ApiServer):
    namespace = make_namespace(old_kuberay)
    async with KubernetesBackend(KubeAccess(kubeconfig=str(old_kuberay.kubeconfig))) as backend:
        spec = a_spec(extra={"authOptions": {"mode": "token"}})
        for ask in (lambda: backend.preflight(spec, namespace), lambda: backend.create(spec, an_owner(), namespace)):
            with pytest.raises(InvalidSpec, match=r"does not know spec\.authOptions.*upgrade KubeRay"):
                await ask()
        assert await backend.find(namespace, "") == []


async def test_token_mode_on_kuberay_1_5_goes_by_environment_and_an_owned_secret(old_kuberay: ApiServer):
    namespace = make_namespace(old_kuberay)
    async with KubernetesBackend(KubeAccess(kubeconfig=str(old_kuberay.kubeconfig))) as backend:
        ref = await backend.create(a_spec(auth="token"), an_owner(), namespace)
    stored = old_kuberay.client.get(f"{CLUSTERS.format(namespace)}/{ref.name}")
    variables = stored["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "RAY_AUTH_MODE", "value": "token"} in variables
    secret = old_kuberay.client.get(f"/api/v1/namespaces/{namespace}/secrets/{ref.name}")
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [ref.uid]
    assert len(secret["data"]["auth_token"]) > 40


async def test_whoever_adopts_makes_the_secret_that_a_crash_left_out(old_kuberay: ApiServer):
    namespace = make_namespace(old_kuberay)
    async with KubernetesBackend(KubeAccess(kubeconfig=str(old_kuberay.kubeconfig))) as backend:
        ref = await backend.create(a_spec(auth="token"), an_owner(), namespace)
        path = f"/api/v1/namespaces/{namespace}/secrets/{ref.name}"
        old_kuberay.client.delete(path)
        assert await backend.create(a_spec(auth="token"), an_owner(), namespace) == ref
        assert old_kuberay.client.get(path)["metadata"]["ownerReferences"][0]["uid"] == ref.uid


async def test_a_retry_of_the_same_attempt_adopts(backend: KubernetesBackend, namespace: str):
    first = await backend.create(a_spec(), an_owner(), namespace)
    assert await backend.create(a_spec(), an_owner(), namespace) == first


async def test_two_creates_at_once_make_one_cluster(backend: KubernetesBackend, namespace: str):
    refs = await asyncio.gather(*(backend.create(a_spec(), an_owner(), namespace) for _ in range(8)))
    assert len({ref.uid for ref in refs}) == 1


async def test_another_attempt_is_another_cluster(backend: KubernetesBackend, namespace: str):
    first = await backend.create(a_spec(), an_owner(), namespace)
    second = await backend.create(a_spec(), an_owner(attempt=2), namespace)
    assert first.name != second.name
    assert await backend.find(namespace, an_owner().flight_selector()) == [first, second]


async def test_the_same_attempt_with_another_spec_is_refused(backend: KubernetesBackend, namespace: str):
    await backend.create(a_spec(), an_owner(), namespace)
    with pytest.raises(ForeignObject, match="made it from another spec"):
        await backend.create(a_spec(image="ray:other"), an_owner(), namespace)


async def test_a_foreign_cluster_is_refused_and_its_owner_named(
    backend: KubernetesBackend, new_kuberay: ApiServer, namespace: str
):
    ref = await backend.create(a_spec(), an_owner(), namespace)
    theirs = an_owner(airflow="elsewhere").to_dict()
    await backend.annotate(ref, {"rayflight.io/owner": str(theirs).replace("'", '"')})
    with pytest.raises(ForeignObject, match="attempt 1 of run r1 of dag train in Airflow elsewhere"):
        await backend.create(a_spec(), an_owner(), namespace)
    await backend.annotate(ref, {"rayflight.io/owner": None})
    with pytest.raises(ForeignObject, match="not made by Rayflight"):
        await backend.create(a_spec(), an_owner(), namespace)


async def test_a_cluster_on_its_way_out_is_not_adopted(
    backend: KubernetesBackend, new_kuberay: ApiServer, namespace: str
):
    ref = await backend.create(a_spec(), an_owner(), namespace)
    path = f"{CLUSTERS.format(namespace)}/{ref.name}"
    new_kuberay.client.patch(path, {"metadata": {"finalizers": ["rayflight.io/test"]}})
    await backend.delete(ref)
    with pytest.raises(ForeignObject, match="on its way out since"):
        await backend.create(a_spec(), an_owner(), namespace)
    left = await backend.remains(ref)
    assert [line.split(" (")[0] for line in left] == [f"RayCluster {ref.name}"]
    assert "finalizers rayflight.io/test" in left[0]
    new_kuberay.client.patch(path, {"metadata": {"finalizers": None}})
    await nothing_remains(backend, ref)


async def test_annotations_are_set_removed_and_refused_for_another_uid(backend: KubernetesBackend, namespace: str):
    ref = await backend.create(a_spec(), an_owner(), namespace)
    await backend.annotate(ref, {"rayflight.io/a": "1", "rayflight.io/b": "2"})
    await backend.annotate(ref, {"rayflight.io/a": None})
    found = (await backend.find(namespace, an_owner().flight_selector()))[0].annotations
    assert "rayflight.io/a" not in found
    assert found["rayflight.io/b"] == "2"
    other = type(ref)(namespace=namespace, name=ref.name, uid="another")
    with pytest.raises(ClusterGone):
        await backend.annotate(other, {"rayflight.io/c": "3"})
