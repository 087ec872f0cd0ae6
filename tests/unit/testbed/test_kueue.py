"""What the testbed tells Kueue, and how kubectl's JSON is read."""

import json

import pytest

from testbed.controlplane import Address, admin_client
from testbed.kueue import Kueue
from testbed.kueue_objects import PodsReady, configuration, objects, parse_many
from testbed.paths import Layout
from testbed.pki import Authority
from testbed.process import Processes


def test_objects_that_kubectl_prints_one_after_the_other_are_read_singly():
    text = '{"kind": "A"}\n{"kind": "List", "items": [{"kind": "B"}, {"kind": "C"}]}\n'
    assert [item["kind"] for item in parse_many(text)] == ["A", "B", "C"]


def test_everything_of_kueue_listens_on_the_testbeds_own_bridge():
    told = configuration(None)
    listening = [told["health"]["healthProbeBindAddress"], told["metrics"]["bindAddress"], told["webhook"]["host"]]
    assert all(address.startswith("10.99.0.1") for address in [*listening, told["visibilityServer"]["bindAddress"]])


@pytest.mark.parametrize(("asked", "there"), [(None, False), (PodsReady(30), True)])
def test_pods_are_only_timed_when_that_is_asked_for(asked, there):
    assert ("waitForPodsReady" in configuration(asked)) is there


def test_every_object_is_json_with_a_name_and_goes_to_an_api():
    for path, item in objects():
        assert path.startswith(("/api/", "/apis/"))
        assert json.loads(json.dumps(item))["metadata"]["name"]


def test_a_component_that_is_forgotten_is_not_missed(tmp_path):
    processes = Processes(tmp_path / "state", tmp_path / "run", tmp_path / "logs")
    folder = tmp_path / "run" / "processes"
    folder.mkdir(parents=True)
    (folder / "kueue.json").write_text("{}")
    assert processes.names() == ["kueue"]
    processes.forget("kueue")
    processes.forget("kueue")
    assert processes.names() == []


@pytest.fixture
def kueue(tmp_path):
    layout, authority, address = Layout.api_only(tmp_path), Authority(tmp_path / "pki"), Address("10.99.0.1", 6443)
    processes = Processes(layout.state, layout.run, layout.logs)
    return Kueue(layout, processes, authority, address, tmp_path, admin_client(authority, address.url))


def hook(name, path):
    service = {"service": {"name": "webhook-service", "namespace": "system", "path": path}}
    return {"name": name, "clientConfig": service, "failurePolicy": "Fail"}


def test_only_webhooks_of_ray_jobs_and_queues_stand_in_front_of_anything(kueue):
    given = {
        "metadata": {"name": "mutating-webhook-configuration"},
        "webhooks": [hook("mpod.kb.io", "/mutate--v1-pod"), hook("mraycluster.kb.io", "/mutate-ray")],
    }
    made = kueue._hooked(given)
    assert made["metadata"]["name"].startswith("kueue-")
    (kept,) = made["webhooks"]
    assert kept["clientConfig"] == {
        "url": "https://10.99.0.1:9443/mutate-ray",
        "caBundle": kueue.authority.bundle,
    }


@pytest.mark.parametrize(("plural", "converted"), [("workloads", True), ("resourceflavors", False)])
def test_kinds_with_several_versions_are_converted_by_kueue(kueue, plural, converted):
    crd = kueue._convertible({"spec": {"names": {"plural": plural}}})
    assert ("conversion" in crd["spec"]) is converted
