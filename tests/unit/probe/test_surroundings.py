"""What a rank says of its surroundings, and of processes that do not answer or do not end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Iterator

import pytest

from rayflight.probe.aftermath import aftermath
from rayflight.probe.child import held, run
from rayflight.probe.surroundings import disk, head, resolve, shared_memory

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_shared_memory_is_written_read_and_left_empty(tmp_path):
    found = shared_memory(str(tmp_path), size=2 * 2**20)
    assert (found["ok"], found["error"], found["wrote_bytes"]) == (True, None, 2 * 2**20)
    assert found["gbps"] > 0
    assert list(tmp_path.iterdir()) == []


def test_shared_memory_that_is_not_there_says_why(tmp_path):
    assert "No such file" in shared_memory(str(tmp_path / "nowhere"))["error"]


def test_shared_memory_that_forgets_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("rayflight.probe.surroundings.Path.read_bytes", lambda _: b"other")
    assert shared_memory(str(tmp_path), size=2**20)["error"] == "other bytes were read than written"


def test_little_room_is_not_filled(tmp_path, monkeypatch):
    monkeypatch.setattr("rayflight.probe.surroundings.shutil.disk_usage", lambda _: Usage(8 * 2**20, 0, 8 * 2**20))
    assert shared_memory(str(tmp_path))["wrote_bytes"] == 2 * 2**20


def test_the_disk_says_its_room_or_why_not(tmp_path):
    assert disk(str(tmp_path))["total_bytes"] > disk(str(tmp_path))["free_bytes"] > 0
    assert "No such file" in disk(str(tmp_path / "nowhere"))["error"]


def test_the_head_is_found_by_the_name_that_kuberay_gives_and_its_ports_are_tried(monkeypatch, port):
    monkeypatch.setenv("FQ_RAY_IP", "localhost")
    monkeypatch.setattr("rayflight.probe.surroundings._PORTS", {"dashboard": 1})
    found = head(f"10.0.0.1:{port}")
    assert (found["name"], found["error"]) == ("localhost", None)
    assert "127.0.0.1" in found["addresses"]
    assert found["reached"]["gcs"] is None
    assert "refused" in found["reached"]["dashboard"]


def test_without_a_name_the_gcs_address_is_tried(monkeypatch, port):
    monkeypatch.delenv("FQ_RAY_IP", raising=False)
    assert head(f"127.0.0.1:{port}")["reached"]["gcs"] is None


def test_a_name_that_does_not_exist_is_said_and_nothing_else_is_tried(monkeypatch):
    monkeypatch.setattr("rayflight.probe.surroundings.socket.getaddrinfo", refusing)
    monkeypatch.setenv("FQ_RAY_IP", "flight-head-svc")
    found = head("10.0.0.1:6379")
    assert found["error"] == "flight-head-svc cannot be resolved: [Errno -2] Name or service not known"
    assert found["reached"] == {}


def refusing(*_, **__):
    raise socket.gaierror(-2, "Name or service not known")


def test_a_resolver_that_hangs_has_a_deadline(monkeypatch):
    end = threading.Event()
    monkeypatch.setattr("rayflight.probe.surroundings.socket.getaddrinfo", lambda *_, **__: end.wait() and [])
    assert resolve("slow", 0.05) == ([], "slow: the resolver did not answer within 0.05 s")
    end.set()


def test_a_program_past_its_deadline_is_killed_with_its_children():
    script = "import subprocess, sys, time; subprocess.Popen(['sleep', '1000']); time.sleep(1000)"
    code, output, problem = run([sys.executable, "-c", script], 0.5)
    assert (code, output, problem) == (-1, "", "did not answer within 0.5 s")


def test_a_program_that_is_not_there_is_an_answer():
    assert "could not be started" in run(["/nowhere/at/all"], 5)[2]


def test_a_process_is_named_while_it_is_there(monkeypatch):
    assert "is still there" in held(os.getpid())
    process = subprocess.Popen(["sleep", "1000"])
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert held(process.pid) == ""


def test_one_that_the_kernel_holds_is_named_as_such(tmp_path, monkeypatch):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a (strange) name) D 1 7 7 0")
    monkeypatch.setattr("rayflight.probe.child._PROC", tmp_path)
    assert held(7) == "process 7 is held by the kernel (state D)"


def test_the_aftermath_ends_what_is_left_and_counts_memory(steer):
    process = subprocess.Popen(["sleep", "1000"])
    reaper = threading.Thread(target=process.wait, daemon=True)
    reaper.start()
    steer("count=1", "used=1073741824")
    found = aftermath([process.pid], devices=True)
    assert found == {"held": [], "memory_free": {"GPU-00000000-aaaa-bbbb-cccc-dddddddddddd": 79 * 2**30}}
    reaper.join(5)
    assert process.returncode == -signal.SIGKILL
