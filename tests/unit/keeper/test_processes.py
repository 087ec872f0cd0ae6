"""Only what carries a cluster's mark is ended, however it tries to get away; nothing else ever is."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from rayflight.keeper import processes

BASE = {"PATH": "/usr/bin:/bin"}
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(
        code: str = "import time; print(flush=True); time.sleep(60)", **environment: str
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", code], env={**BASE, **environment}, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pids(uid: str, pod: str | None = None) -> set[int]:
    return {process.pid for process in processes.members(uid, pod)}


def test_members_are_told_by_their_mark_and_their_tree(start):
    first = start(RAYFLIGHT_LOCAL_CLUSTER="test-1", RAYFLIGHT_LOCAL_POD="a")
    second = start(RAYFLIGHT_LOCAL_CLUSTER="test-1", RAYFLIGHT_LOCAL_POD="b")
    start(RAYFLIGHT_LOCAL_CLUSTER="test-2", RAYFLIGHT_LOCAL_POD="a")
    assert pids("test-1") == {first.pid, second.pid}
    assert pids("test-1", "b") == {second.pid}


def test_what_takes_the_place_of_a_replaced_tree_is_left_alone(start):
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    mark = {"RAYFLIGHT_LOCAL_CLUSTER": "test-9", "RAYFLIGHT_LOCAL_POD": "a"}
    old, other = start(stubborn, **mark), start(RAYFLIGHT_LOCAL_CLUSTER="test-9", RAYFLIGHT_LOCAL_POD="b")
    fresh: list[subprocess.Popen[bytes]] = []

    def restart() -> None:
        old.wait()
        fresh.append(start(**mark))

    keeper = threading.Thread(target=restart)
    keeper.start()
    processes.end_present("test-9", 0.3, "a")
    keeper.join()
    assert pids("test-9") == {fresh[0].pid, other.pid}


def test_a_child_without_the_mark_belongs_to_its_parent(start):
    code = (
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '60'], env={}, start_new_session=True)\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    parent = start(code, RAYFLIGHT_LOCAL_CLUSTER="test-3")
    assert len(pids("test-3")) == 2
    assert processes.end("test-3", grace=2.0) == []
    assert pids("test-3") == set()
    assert parent.wait() != 0


def test_an_orphan_that_hid_its_environment_is_found_by_its_session(start):
    code = (
        "import os, subprocess, time\n"
        "os.setsid()\n"
        "subprocess.Popen(['sh', '-c', 'sleep 60 & wait'], env={'PATH': '/usr/bin:/bin'})\n"
        "print(flush=True); time.sleep(60)"
    )
    leader = start(code, RAYFLIGHT_LOCAL_CLUSTER="test-8")
    wait_until(lambda: len(pids("test-8")) == 3)
    (shell,) = [process for process in processes.members("test-8") if process.name() == "sh"]
    shell.kill()
    wait_until(lambda: len(pids("test-8")) == 2)
    assert processes.end("test-8", grace=2.0) == []
    assert pids("test-8") == set()
    leader.wait()


def test_ending_one_cluster_leaves_others_and_strangers_alone(start):
    mine, other = start(RAYFLIGHT_LOCAL_CLUSTER="test-4"), start(RAYFLIGHT_LOCAL_CLUSTER="test-5")
    stranger = start(RAY_ADDRESS="127.0.0.1:6379")
    assert processes.end("test-4", grace=2.0) == []
    assert (mine.wait(), other.poll(), stranger.poll()) == (-15, None, None)


def test_who_ignores_sigterm_is_killed(start):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    stubborn = start(code, RAYFLIGHT_LOCAL_CLUSTER="test-6")
    assert processes.end("test-6", grace=0.3) == []
    assert stubborn.wait() == -9


def test_a_pid_that_came_back_is_another_process(start):
    process = start()
    assert processes.same(process.pid, processes.started(process.pid))
    assert not processes.same(process.pid, processes.started(process.pid) - 60)
    process.kill()
    process.wait()
    assert not processes.same(process.pid, 0.0)


def test_clusters_of_a_folder_are_found_by_their_processes(start):
    start(RAYFLIGHT_LOCAL_CLUSTER="test-7", RAYFLIGHT_LOCAL_FOLDER="/state/of/test-7")
    assert processes.running("/state/of/test-7") == {"test-7"}
    assert processes.running("/state/of/others") == set()
