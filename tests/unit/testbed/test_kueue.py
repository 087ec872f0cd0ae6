"""What the testbed tells Kueue, and how kubectl's JSON is read."""

import json

import pytest

from testbed.kueue_objects import PodsReady, configuration, objects, parse_many
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
