"""Stack dumps become facts: the thread that trains is found, a stopped process is told by py-spy's own failure."""

from __future__ import annotations

import pytest

from rayflight.snapshot.hang import Frame
from rayflight.snapshot.stacks import read_dump, read_refusal

RANK = """Process 717: ray::RayTrainWorker
Python v3.11.7 (/usr/bin/python3.11)

Thread 717 (idle): "MainThread"
    Worker.main_loop (ray/_private/worker.py:1069)
    <module> (ray/_private/workers/default_worker.py:323)
Thread 788 (idle): "PythonGCThread"
    Condition.wait (threading.py:327)
Thread 852 (active): "TrainingThread(train_fn)"
    Queue.get (queue.py:171)
    fly.<locals>.train_rank (hang_training.py:115)
    Thread._bootstrap (threading.py:1002)
Thread 858 (idle): "read-ahead"
    read (loader.py:1)
    read (loader.py:2)
    read (loader.py:3)
Thread 860 (idle)
"""
TASK = RANK.replace('"TrainingThread(train_fn)"', '"Thread-9"').replace("loader.py", "selectors.py")
FAULT = """Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/usr/lib/python3.11/site-packages/ray/_private/gc.py", line 29 in run

Current thread 0x00007f02 (most recent call first):
  File "/tmp/ray/session_1/runtime_resources/working_dir_files/_ray_pkg_1/train.py", line 30 in step
  File "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", line 7 in forward
"""
STOPPED = """Failed to execute `['py-spy', 'dump', '-p', '1184']`.
=== stderr ===
Caused by:
    0: Failed to suspend process
    1: unexpected waitpid result PtraceEvent(Pid(1184), SIGSTOP, 128) to 1184
"""


def test_ray_trains_own_thread_is_the_one_that_trains():
    sample = read_dump(RANK, "py-spy")
    assert sample.frames[0] == Frame(function="Queue.get", file="queue.py", line=171)
    assert sample.frames[1].function == "fly.<locals>.train_rank"
    assert (sample.busy, sample.how) == (True, "py-spy")


def test_without_ray_train_it_is_the_thread_with_the_most_of_others_code():
    assert read_dump(TASK, "py-spy").frames[1].file == "hang_training.py"


def test_a_process_that_runs_nothing_of_the_user_shows_its_main_thread():
    text = "\n".join(line for line in TASK.splitlines() if "hang_training" not in line)
    assert read_dump(text, "py-spy").frames[0].function == "Worker.main_loop"


def test_faulthandlers_words_become_the_same_facts():
    frames = read_dump(FAULT, "faulthandler").frames
    assert [str(frame) for frame in frames] == ["step (train.py:30)", "forward (torch/nn/modules/module.py:7)"]


def test_an_answer_without_a_thread_says_so():
    sample = read_dump("Process 3: python\nPython v3.11.7\n", "py-spy")
    assert (sample.frames, sample.why) == ((), "no thread in py-spy's answer")


@pytest.mark.parametrize(
    ("text", "state", "why"),
    [
        (STOPPED, "T", "stopped"),
        (STOPPED.replace("SIGSTOP", "SIGTRAP"), "", "unexpected waitpid result"),
        ("Error: Permission Denied: Try running again with elevated permissions", "", "ptrace"),
        ("Profiling is disabled by default for security reasons.", "", "RAY_DASHBOARD_ENABLE_PROFILING"),
        ("Failed to execute: py-spy is not installed", "", "not installed"),
        ("", "", "an empty answer"),
    ],
)
def test_a_refusal_is_read(text, state, why):
    sample = read_refusal(text)
    assert (sample.state, sample.frames) == (state, ())
    assert why in sample.why
