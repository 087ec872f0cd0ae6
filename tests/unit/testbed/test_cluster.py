"""What a machine cannot do, and what a testbed lacks, is one sentence."""

import pytest

from testbed import cluster
from testbed.cli import main
from testbed.errors import Unsupported
from testbed.facts import Facts
from testbed.nodes import NODES
from testbed.registry import answer_for
from testbed.volumes import released

CPU, GPU = NODES[0], NODES[1]


def _node(ready="True", gpus=None):
    allocatable = {} if gpus is None else {"nvidia.com/gpu": str(gpus)}
    condition = {"type": "Ready", "status": ready, "message": "container runtime is down"}
    return {"status": {"conditions": [condition], "allocatable": allocatable}}


@pytest.mark.parametrize(
    ("item", "node", "lacks"),
    [
        (None, CPU, "has not registered"),
        (_node("False"), CPU, "is not Ready (container runtime is down)"),
        ({"status": {}}, CPU, "is not Ready (no condition yet)"),
        (_node(gpus=3), GPU, "offers 3 of 4 GPUs"),
        (_node(), GPU, "offers 0 of 4 GPUs"),
        (_node(gpus=4), GPU, ""),
        (_node(), CPU, ""),
    ],
)
def test_a_node_says_what_it_lacks(item, node, lacks):
    assert cluster.node_lacks(item, node) == lacks


def test_without_root_one_sentence_names_the_way_that_needs_none(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RAYFLIGHT_TESTBED_CACHE", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["up"]) == 2
    message = capsys.readouterr().err
    assert "needs root; `up --api-only` does not" in message
    assert message.count("\n") == 1


def test_another_system_than_linux_is_refused(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(Unsupported, match="needs Linux"):
        cluster.require_possible()


def test_without_go_one_sentence_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RAYFLIGHT_TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert main(["up", "--state-dir", str(tmp_path / "state")]) == 2
    assert "install Go 1.26 or newer" in capsys.readouterr().err


def test_a_testbed_that_is_not_up_has_no_kubeconfig(capsys, tmp_path):
    assert main(["kubeconfig", "--state-dir", str(tmp_path)]) == 1
    assert "`python -m testbed up` starts it" in capsys.readouterr().err


def test_another_kuberay_version_is_not_mixed_into_a_running_testbed(tmp_path):
    Facts("1.6.0", 1, 2, 3).save(tmp_path / "testbed.json")
    stored = Facts.load(tmp_path / "testbed.json")
    assert stored is not None
    with pytest.raises(Exception, match=r"runs KubeRay 1\.6\.0, not 1\.5\.0"):
        stored.require("1.5.0")


def test_facts_cut_off_by_a_kill_count_as_none(tmp_path):
    (tmp_path / "testbed.json").write_text('{"kuberay": "1.6')
    assert Facts.load(tmp_path / "testbed.json") is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2/rayflight/nothing/manifests/1", 404),
        ("/v2/team/private/tool/manifests/1", 401),
        ("/v2/limited/tool/manifests/1", 429),
        ("/v2/privateer/tool/manifests/1", 404),
    ],
)
def test_the_registry_answers_by_image_name(path, status):
    assert answer_for(path)[0] == status


def test_only_released_volumes_of_the_testbed_are_used_again():
    def volume(name, phase, storage_class="rayflight-shared"):
        return {"metadata": {"name": name}, "spec": {"storageClassName": storage_class}, "status": {"phase": phase}}

    found = {"items": [volume("a", "Released"), volume("b", "Bound"), volume("c", "Released", "other")]}
    assert released(found) == ["a"]
