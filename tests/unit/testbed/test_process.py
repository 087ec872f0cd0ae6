"""A process is found again by its record or its marker, and never mistaken for another."""

import json
import os
import signal
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.process import Daemon, Processes, other_states, start_time, wait_until

SLEEP = Daemon("sleeper", ("sleep", "60"))


@pytest.fixture
def processes(tmp_path):
    found = Processes(tmp_path / "state", tmp_path / "run", tmp_path / "logs", die_with_parent=True)
    yield found
    found.stop(found.names(), grace=0)


def test_starting_what_runs_changes_nothing(processes):
    assert processes.start(SLEEP) == processes.start(SLEEP) == processes.pid("sleeper")


def test_a_killed_process_is_seen_as_dead_and_started_anew(processes):
    first = processes.start(SLEEP)
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: processes.pid("sleeper") is None, 5, every=0.01)
    assert processes.restart("sleeper") != first


def test_a_recycled_pid_is_not_taken_for_the_process(processes, tmp_path):
    processes.start(SLEEP)
    record = tmp_path / "run" / "processes" / "sleeper.json"
    stored = json.loads(record.read_text())
    record.write_text(json.dumps({**stored, "pid": os.getpid()}))
    assert processes.pid("sleeper") is None
    record.write_text(json.dumps(stored))


def test_a_record_of_an_earlier_boot_counts_for_nothing(processes, tmp_path):
    processes.start(SLEEP)
    record = tmp_path / "run" / "processes" / "sleeper.json"
    stored = json.loads(record.read_text())
    record.write_text(json.dumps({**stored, "boot": "another"}))
    assert processes.pid("sleeper") is None
    record.write_text(json.dumps(stored))


def test_a_process_without_record_is_found_by_its_marker(processes, tmp_path):
    pid = processes.start(SLEEP)
    hidden = (tmp_path / "run" / "processes" / "sleeper.json").rename(tmp_path / "hidden")
    assert wait_until(lambda: processes.marked() == [pid], 5, every=0.01)
    hidden.rename(tmp_path / "run" / "processes" / "sleeper.json")


def test_the_marker_of_another_testbed_is_not_ours(processes, tmp_path):
    processes.start(SLEEP)
    assert Processes(tmp_path / "other", tmp_path / "run", tmp_path / "logs").marked() == []


def test_a_stopped_process_keeps_its_command_for_the_restart(processes):
    first = processes.start(SLEEP)
    processes.stop(["sleeper"])
    assert start_time(first) is None
    assert processes.names() == ["sleeper"]
    assert processes.restart("sleeper") == processes.pid("sleeper")


def test_restart_of_an_unknown_component_names_those_there_are(processes):
    processes.start(SLEEP)
    with pytest.raises(TestbedError, match="no component 'etcd'; it has: sleeper"):
        processes.restart("etcd")


def test_a_process_gets_no_proxy_and_no_foreign_kubeconfig(processes, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    pid = processes.start(SLEEP)
    variables = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"proxy.invalid" not in variables
    assert b"/elsewhere" not in variables


def test_a_paused_process_is_told_from_a_running_one_and_woken(processes):
    processes.start(SLEEP)
    processes.signal("sleeper", signal.SIGSTOP)
    assert wait_until(lambda: processes.is_paused("sleeper"), 5, every=0.01)
    processes.wake()
    assert wait_until(lambda: not processes.is_paused("sleeper"), 5, every=0.01)


def test_a_testbed_with_nodes_of_another_state_directory_is_seen(tmp_path, monkeypatch):
    stranger = {b"1": b"x", b"RAYFLIGHT_TESTBED_MARK": b"/other", b"RAYFLIGHT_TESTBED_NODE": b"gpu-1"}
    alone = {b"RAYFLIGHT_TESTBED_MARK": b"/api-only", b"RAYFLIGHT_TESTBED_NODE": b""}
    environments = {1: stranger, 2: alone}
    monkeypatch.setattr("testbed.process._marked", lambda: iter(environments))
    monkeypatch.setattr(
        "testbed.process._environment", lambda pid: [k + b"=" + v for k, v in environments[pid].items()]
    )
    assert other_states(tmp_path) == {"/other"}
    assert other_states(Path("/other")) == set()
