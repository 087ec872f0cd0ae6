"""Faults that can be judged without a cluster: processes of pods, taints, the command line."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import cli, faults, faults_cli, faults_pods, gpu
from testbed.errors import TestbedError
from testbed.faults import Done, Faults
from testbed.faults_proxy import Answer, Cut, Drop, Hang, Pass
from testbed.paths import Layout

POD = {
    "metadata": {"namespace": "default", "name": "worker", "uid": "1234-abcd"},
    "status": {"containerStatuses": [{"name": "ray-worker", "containerID": "containerd://c0ffee"}]},
}


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


class Proc:
    """A /proc of living processes whose cgroups and command lines are made up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "self").mkdir()

    def __call__(self, pid: int, cgroup: str, command: str) -> None:
        (self.path / str(pid)).mkdir()
        (self.path / str(pid) / "cgroup").write_text(f"5:memory:{cgroup}\n1:name=systemd:/\n")
        (self.path / str(pid) / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


def test_processes_of_a_pod_are_those_of_its_containers_and_not_its_sandbox(proc, sleeper):
    root = "/rayflight-testbed/gpu-1/kubepods/burstable/pod1234-abcd"
    proc(sleeper.pid, f"{root}/c0ffee", "python train.py --epochs 3")
    proc(os.getpid(), f"{root}/sandbox", "/pause")
    (found,) = faults_pods.processes(POD, proc.path)
    assert (found.pid, found.container, found.command) == (sleeper.pid, "ray-worker", "python train.py --epochs 3")


@pytest.mark.parametrize(
    "cgroup",
    ["/rayflight-testbed/gpu-1/kubepods/pod9999/c0ffee", "/system.slice/pod1234-abcd/c0ffee", "/"],
    ids=["another pod", "not the testbed's", "no cgroup"],
)
def test_other_processes_are_not_seen(proc, sleeper, cgroup):
    proc(sleeper.pid, cgroup, "python train.py")
    assert faults_pods.processes(POD, proc.path) == []


def test_a_pattern_that_matches_nothing_shows_what_runs(proc, sleeper):
    proc(sleeper.pid, "/rayflight-testbed/gpu-1/pod1234-abcd/c0ffee", "raylet --head")
    with pytest.raises(TestbedError, match=r"default/worker matches 'train'; there runs:\n  \d+ raylet --head"):
        faults_pods.matching(POD, "train", proc=proc.path)


def test_only_the_named_container_is_searched(proc, sleeper):
    proc(sleeper.pid, "/rayflight-testbed/gpu-1/pod1234-abcd/c0ffee", "python train.py")
    assert faults_pods.matching(POD, "train", "ray-worker", proc.path)
    with pytest.raises(TestbedError):
        faults_pods.matching(POD, "train", "sidecar", proc.path)


def test_a_recycled_pid_is_not_signalled(sleeper):
    stranger = faults_pods.PodProcess(sleeper.pid, started=1, container="c", command="x")
    faults_pods.send([stranger], signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.2)


def test_taints_are_read_and_written_as_kubectl_does():
    assert faults.parse_taint("a/b=c:NoExecute") == {"key": "a/b", "value": "c", "effect": "NoExecute"}
    assert faults.parse_taint("soon:NoSchedule") == {"key": "soon", "effect": "NoSchedule"}


@pytest.mark.parametrize("text", ["soon", "soon:Never", ":NoSchedule", "=x:NoSchedule"])
def test_what_is_no_taint_is_refused(text):
    with pytest.raises(TestbedError, match="is no taint"):
        faults.parse_taint(text)


def test_a_fault_used_as_a_block_is_undone_also_when_the_block_fails():
    undone = []

    with pytest.raises(ValueError, match="in the block"), Done("broken", revert=lambda: undone.append("yes")):
        raise ValueError("in the block")
    assert undone == ["yes"]


def test_without_a_testbed_a_fault_says_so(tmp_path):
    with pytest.raises(TestbedError, match="the testbed is not up"):
        Faults(Layout(state=tmp_path / "state", run=tmp_path / "run", cache=tmp_path))


def test_a_node_that_does_not_exist_is_named():
    with pytest.raises(TestbedError, match="no Kubernetes node 'gpu-9'; it has cpu-1, gpu-1, gpu-2"):
        faults.kubelet("gpu-9")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pass", Pass()),
        ("drop", Drop()),
        ("lose", Drop(after_request=True)),
        ("hang", Hang()),
        ("cut:100", Cut(100)),
        ("429", Answer(429, retry_after=1)),
        ("503", Answer(503)),
    ],
)
def test_outcomes_of_the_proxy_are_read_from_words(text, expected):
    assert faults_cli.outcome(text) == expected


@pytest.mark.parametrize("text", ["200", "cut", "cut:x", "storm"])
def test_a_word_that_is_no_outcome_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        faults_cli.outcome(text)


class Recorder:
    """Stands for Faults behind the command line; knows the verbs that Faults has and no others."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        assert callable(getattr(Faults, name)), f"Faults has no verb {name}"

        def call(*args, **kwargs):
            self.calls.append((name, *args, *sorted(kwargs.items())))
            return Done(name)

        return call


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("component stop coredns", ("stop", "coredns")),
        ("kubelet pause gpu-1", ("pause", "kubelet-gpu-1")),
        ("plugin start gpu-2", ("start", "device-plugin-gpu-2")),
        ("apiserver resume", ("resume", "kube-apiserver")),
        ("operator stop", ("stop", "kuberay-operator")),
        ("lose-node gpu-1", ("lose_node", "gpu-1")),
        ("taint gpu-1 a=b:NoExecute", ("taint", "gpu-1", "a=b:NoExecute")),
        ("gpu-unhealthy gpu-2 3", ("make_gpu_unhealthy", "gpu-2", 3)),
        (f"gpu-healthy {gpu.uuid('gpu-1', 1)}", ("make_gpu_healthy", "gpu-1", 1)),
        (
            "quota lab requests.nvidia.com/gpu=1 pods=3",
            ("set_quota", "lab", {"requests.nvidia.com/gpu": "1", "pods": "3"}),
        ),
        ("signal lab p train", ("signal_in_pod", "lab", "p", "train", ("container", ""), ("number", signal.SIGKILL))),
        ("delete-pod lab p --grace 0", ("delete_pod", "lab", "p", ("grace", 0))),
    ],
)
def test_each_verb_of_the_command_line_calls_its_fault(words, call):
    options = cli.parser().parse_args(["fault", *words.split()])
    recorder = Recorder()
    list(options.fault(recorder, options))
    assert recorder.calls == [call]


@pytest.mark.parametrize(
    "words", ["gpu-unhealthy gpu-1", "gpu-unhealthy gpu-1 x", "quota lab pods", "signal lab p x --signal NO"]
)
def test_arguments_that_make_no_sense_are_refused_with_a_sentence(words):
    options = cli.parser().parse_args(["fault", *words.split()])
    with pytest.raises(TestbedError):
        list(options.fault(Recorder(), options))
