"""``rayflight`` on a live cluster: a fake API server on loopback serves what a real one would."""

import asyncio
import base64
import json
import tarfile
from importlib import metadata

import pytest
import yaml

from rayflight.kube.access import KubeAccess
from tests.moments import raw
from tests.unit.cli.running import Command, Ran
from tests.unit.kube.fake_kube import FakeKube

NAMESPACE = "case"
_HERE = f"/api/v1/namespaces/{NAMESPACE}"
_PATHS = {
    "rayclusters": f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters",
    "pods": f"{_HERE}/pods",
    "events": f"{_HERE}/events",
    "services": f"{_HERE}/services",
    "resourcequotas": f"{_HERE}/resourcequotas",
    "persistentvolumeclaims": f"{_HERE}/persistentvolumeclaims",
    "nodes": "/api/v1/nodes",
    "all_pods": "/api/v1/pods",
    "limitranges": f"{_HERE}/limitranges",
    "jobs.batch": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
}
TOKEN = "s3cr3t-t0ken-of-a-person"


@pytest.fixture
async def kube():
    async with FakeKube() as server:
        server.serve(*_PATHS.values())
        for name, path in _PATHS.items():
            for item in raw("quota-of-one-gpu-t044s")["raw"].get(name, {}).get("items", ()):
                item["metadata"]["namespace"] = NAMESPACE
                server.put(path, item)
        cluster = next(iter(server.collections[_PATHS["rayclusters"]].values()))
        server.script("GET", f"{_PATHS['rayclusters']}/{cluster['metadata']['name']}", cluster)
        server.script("GET", f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"name": NAMESPACE}})
        head = cluster["status"]["head"]["serviceName"]
        proxy = f"{_HERE}/services/{head}:dashboard/proxy"
        server.script("GET", f"{proxy}/api/version", b'{"ray_version": "2.60.0", "session_name": "s1"}')
        server.script("GET", f"{proxy}/api/gcs_healthz", b"success")
        yield server
        server.unexpected.clear()  # dashboards, logs and kinds that this cluster does not have


async def command(kube, tmp_path, monkeypatch, capsys, *words) -> Ran:
    """In a thread: the command runs an event loop of its own."""
    config = tmp_path / "kubeconfig"
    access: KubeAccess = kube.access()
    config.write_text(yaml.safe_dump(dict(access.inline or {})))
    return await asyncio.to_thread(Command(monkeypatch, capsys), *words, "--kubeconfig", config)


async def test_a_live_cluster_is_diagnosed(kube, tmp_path, monkeypatch, capsys):
    ran = await command(kube, tmp_path, monkeypatch, capsys, "diagnose", f"{NAMESPACE}/c", "--json")
    assert (ran.code, json.loads(ran.out)["cause"]["id"]) == (1, "quota-below-request")


async def test_a_cluster_that_is_not_there_is_bad_input(kube, tmp_path, monkeypatch, capsys):
    ran = await command(kube, tmp_path, monkeypatch, capsys, "diagnose", f"{NAMESPACE}/nobody")
    assert ran.code == 3
    assert "it knows c" in ran.err


async def test_a_namespace_that_is_not_there_is_told_as_such(kube, tmp_path, monkeypatch, capsys):
    kube.script("GET", "/apis/ray.io/v1/namespaces/nowhere/rayclusters", {"metadata": {}, "items": []})
    ran = await command(kube, tmp_path, monkeypatch, capsys, "diagnose", "nowhere/c")
    assert ran.code == 3
    assert "No such namespace: nowhere" in ran.err


async def test_credentials_that_are_refused_are_told_in_words_of_the_command(kube, tmp_path, monkeypatch, capsys):
    config = {**dict(kube.access().inline or {}), "users": [], "contexts": []}
    path = tmp_path / "broken"
    path.write_text(yaml.safe_dump(config))
    ran = await asyncio.to_thread(Command(monkeypatch, capsys), "diagnose", "case/c", "--kubeconfig", path)
    assert ran.code == 3
    assert "--kubeconfig" in ran.err
    assert "connection" not in ran.err


async def test_what_snapshot_takes_is_named_by_its_refusal(monkeypatch, capsys, tmp_path):
    ran = await asyncio.to_thread(Command(monkeypatch, capsys), "snapshot", "abc", "-o", tmp_path / "b.tar.gz")
    assert ran.code == 3
    assert "Cannot save 'abc': it is no NAMESPACE/CLUSTER. Next: write it like" in ran.err
    assert "folder" not in ran.err


async def test_the_version_is_printed(monkeypatch, capsys):
    ran = await asyncio.to_thread(Command(monkeypatch, capsys), "--version")
    assert (ran.code, ran.out) == (0, f"rayflight {metadata.version('rayflight')}\n")


async def test_a_bundle_gives_the_same_cause_elsewhere_and_holds_no_secret(kube, tmp_path, monkeypatch, capsys):
    pod = next(iter(kube.collections[_PATHS["pods"]].values()))
    pod["spec"]["containers"][0].setdefault("env", []).append({"name": "HF_TOKEN", "value": TOKEN})
    kube.script("GET", f"{_HERE}/pods/{pod['metadata']['name']}/log", f"logged in as {TOKEN}".encode())
    bundle = tmp_path / "b.tar.gz"
    ran = await command(kube, tmp_path, monkeypatch, capsys, "snapshot", f"{NAMESPACE}/c", "-o", bundle)
    assert ran.code == 0, ran.err
    with tarfile.open(bundle) as tar:
        files = {item.name: tar.extractfile(item).read() for item in tar}
    assert any(name.endswith(".log") and b"logged in as ****" in data for name, data in files.items())
    assert [data for name, data in files.items() if name.endswith("ray/gcs_healthz.txt")] == [b"success"]
    for secret in (TOKEN.encode(), base64.b64encode(TOKEN.encode())):
        assert not [name for name, data in files.items() if secret in data]
    ran = await command(kube, tmp_path, monkeypatch, capsys, "diagnose", bundle, "--json")
    assert (ran.code, json.loads(ran.out)["cause"]["id"]) == (1, "quota-below-request")
