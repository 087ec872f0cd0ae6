"""Every golden manifest is accepted by a real API server with KubeRay's own CRDs, and stored as asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rayflight.manifests import dropped_fields
from testbed.api import ApiServer, api_server
from tests.golden_manifests import SHAPES, manifest

CLUSTERS = "/apis/ray.io/v1/namespaces/training/rayclusters?dryRun=All&fieldValidation=Strict"
NEWER_THAN_1_5 = {"token-by-operator", "raw-own-fields"}  # they ask for authOptions


@pytest.fixture(scope="module", params=["1.6.0", "1.5.0"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(request.param, tmp_path_factory.mktemp("api")) as running:
        running.client.create("/api/v1/namespaces", {"metadata": {"name": "training"}})
        yield running


@pytest.fixture
def kuberay(server: ApiServer, request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["server"])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.stem)
def test_manifest_is_accepted_and_stored_as_asked(server: ApiServer, kuberay: str, shape: Path):
    asked = manifest(shape)
    status, stored = server.client.request("POST", CLUSTERS, asked)
    if kuberay == "1.5.0" and shape.stem in NEWER_THAN_1_5:
        assert (status, "authOptions" in stored["message"]) == (400, True)
        return
    assert status == 201, stored.get("message")
    assert dropped_fields(asked, stored) == []


def test_field_that_the_installed_crd_does_not_know_is_refused_or_seen_to_be_dropped(server: ApiServer, kuberay: str):
    asked = manifest(next(shape for shape in SHAPES if shape.stem == "token-by-operator"))
    strict, refusal = server.client.request("POST", CLUSTERS, asked)
    lenient, stored = server.client.request("POST", CLUSTERS.replace("Strict", "Ignore"), asked)
    assert lenient == 201
    if kuberay == "1.5.0":
        assert (strict, dropped_fields(asked, stored)) == (400, ["spec.authOptions"])
        assert 'unknown field "spec.authOptions"' in refusal["message"]
    else:
        assert (strict, dropped_fields(asked, stored)) == (201, [])
