"""Submissions that ended badly: what is proven, and by which words."""

from dataclasses import replace

import pytest

from rayflight.diagnosis import diagnose
from rayflight.findings import Decision
from rayflight.states import JobStatus
from tests.made_up import SESSION, at, gap, job, ray, snapshot
from tests.moments import moment
from tests.unit.diagnosis.asking import found, ids

PODS = snapshot().pods


def failed(message="", **changes):
    made = job(JobStatus.FAILED, message=message, ended_at=at(50), **changes)
    return snapshot(ray=ray(*PODS, jobs=(made,)))


def test_the_users_exit_code_and_last_lines_are_quoted():
    message = (
        "Job entrypoint command failed with exit code 7, last available logs (truncated to 20,000 chars):\n"
        "epoch 1\nValueError: no data\n"
    )
    finding = found(failed(message, driver_exit_code=7))["entrypoint-failed"]
    assert finding.decision is Decision.FAIL
    assert finding.layer == "user"
    assert "exit code 7" in finding.summary
    assert "ValueError: no data" in finding.summary
    assert "truncated" not in finding.summary


def test_what_ray_says_about_itself_is_not_quoted_as_the_last_words():
    aside = "[2026-12-01 11:21:39,911 W 58 58] network_util.cc:330: Failed to determine local IP"
    noted = "2026-12-01 11:21:40,001\tINFO worker.py:1843 -- Connecting to existing Ray cluster"
    told = f"last available logs (truncated to 20,000 chars):\n{noted}\nValueError: no data\n{aside}\n"
    summary = found(failed(told, driver_exit_code=7))["entrypoint-failed"].summary
    assert "ValueError: no data" in summary
    assert "network_util" not in summary
    assert "worker.py" not in summary
    only = f"last available logs (truncated to 20,000 chars):\n{aside}\n"
    assert "network_util" in found(failed(only, driver_exit_code=7))["entrypoint-failed"].summary


def test_the_tasks_error_is_one_paragraph_whatever_is_quoted():
    told = "last available logs (truncated to 20,000 chars):\nTraceback:\n  line\nValueError: no data\n"
    sentence = diagnose(failed(told, driver_exit_code=7)).sentence()
    assert "\n" not in sentence
    assert "Traceback: line ValueError: no data" in sentence


def test_exit_code_127_is_a_command_that_does_not_exist():
    assert "`python train.py`" in found(failed(driver_exit_code=127))["entrypoint-not-found"].summary


@pytest.mark.parametrize(("code", "signal"), [(-9, 9), (137, 9), (143, 15), (-15, 15)])
def test_a_killed_driver_is_told_by_its_signal_and_nobody_is_accused(code, signal):
    finding = found(failed(driver_exit_code=code))["driver-killed"]
    assert f"signal {signal}" in finding.summary
    assert "not known" in finding.summary
    assert finding.decision is Decision.RETRY_ELSEWHERE


@pytest.mark.parametrize(("code", "signal"), [(-11, "SIGSEGV"), (139, "SIGSEGV"), (134, "SIGABRT"), (-7, "SIGBUS")])
def test_a_signal_that_a_process_gives_itself_is_a_crash_of_its_own_code(code, signal):
    finding = found(failed(driver_exit_code=code))["driver-crashed"]
    assert signal in finding.summary
    assert (finding.layer, finding.decision) == ("user", Decision.FAIL)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("runtime_env setup failed: Failed to install pip packages", "runtime-env-failed"),
        ("Runtime environment setup failed: RuntimeEnvSetupError('x')", "runtime-env-failed"),
        (
            "Job supervisor actor could not be scheduled: The actor is not schedulable",
            "entrypoint-resources-unavailable",
        ),
        (
            "Job supervisor actor could not be scheduled: NodeAffinitySchedulingStrategy doesn't exist any more",
            "job-supervisor-lost",
        ),
        (
            "Unexpected error occurred: The actor died unexpectedly.\n\tclass_name: JobSupervisor\n",
            "job-supervisor-died",
        ),
    ],
)
def test_older_ray_without_error_types_is_known_by_how_its_message_begins(message, name):
    assert name in ids(failed(message))
    assert name not in ids(failed(f"Job entrypoint command failed with exit code 1: {message[:20]}"))


def test_colours_hide_neither_the_words_nor_the_frame():
    log = (
        "ray.exceptions.RayTaskError(ValueError): \x1b[36mray::train()\x1b[39m (pid=7, ip=10.0.1.1)\n"
        '  File "/app/train.py", line 9, in loop\nValueError: bad shard\n'
    )
    seen = replace(failed("exit code 1", driver_exit_code=1), logs={"driver/train-1": log})
    summary = found(seen)["driver-exception"].summary
    assert "ValueError: bad shard at /app/train.py, line 9, in loop" in summary


@pytest.mark.parametrize(
    "line",
    [
        "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-A6 to 9637892 bytes, error: No space left",
        "include/shm.h:96 NCCL WARN Error while creating shared memory segment nccl-shm-recv-7 (size 9637888)",
        "RuntimeError: unable to write to file </torch_12_3_4>: No space left on device (28)",
        "OSError: [Errno 28] No space left on device: '/dev/shm/x'",
    ],
)
def test_full_shared_memory_has_many_words(line):
    seen = replace(failed("exit code 1", driver_exit_code=1), logs={"driver/train-1": line})
    assert ids(seen) == ["shared-memory-too-small"]


@pytest.mark.parametrize(
    ("error", "message", "name", "decision"),
    [
        ("RUNTIME_ENV_SETUP_FAILURE", "runtime_env setup failed: pip", "runtime-env-failed", Decision.FAIL),
        ("JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "failed to start", "entrypoint-resources-unavailable", Decision.FAIL),
        ("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "no node", "entrypoint-resources-unavailable", Decision.FAIL),
        ("JOB_SUPERVISOR_ACTOR_START_FAILURE", "cannot be negative", "job-parameters-invalid", Decision.FAIL),
        (
            "JOB_SUPERVISOR_ACTOR_START_FAILURE",
            "Unexpected error occurred: failed to get job supervisor.",
            "job-supervisor-lost",
            Decision.RETRY_ELSEWHERE,
        ),
        ("JOB_SUPERVISOR_ACTOR_DIED", "died", "job-supervisor-died", Decision.RETRY_ELSEWHERE),
        ("JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "?", "job-supervisor-failed", Decision.RETRY_ELSEWHERE),
        ("JOB_ENTRYPOINT_COMMAND_START_ERROR", "popen", "entrypoint-not-started", Decision.FAIL),
    ],
)
def test_rays_error_type_tells_the_kind(error, message, name, decision):
    finding = found(failed(message, error_type=error))[name]
    assert finding.decision is decision
    assert message in finding.summary


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("2 worker(s) were killed due to the node running low on memory.", "ray-memory-monitor-killed"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "gpu-out-of-memory"),
        ("RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error.", "shared-memory-too-small"),
    ],
)
def test_words_that_only_one_fault_prints_prove_it_wherever_they_stand(line, name):
    assert line in found(failed(f"x\n{line}\ny", driver_exit_code=1))[name].summary
    tail = diagnose(failed("x", driver_exit_code=1), submission="train-1", log_tail=["a", line])
    assert tail.cause.id == name
    assert name not in ids(failed("x", driver_exit_code=1))


def test_rays_guess_of_a_kill_is_no_proof():
    text = "Worker unexpectedly exits. Some common causes include: (1) the process was killed by the OOM killer"
    assert ids(failed(text, driver_exit_code=1)) == ["entrypoint-failed"]


def test_a_stopped_job_was_stopped_by_somebody():
    stopped = job(JobStatus.STOPPED, message="Job was intentionally stopped.", ended_at=at(50))
    assert found(snapshot(ray=ray(*PODS, jobs=(stopped,))))["job-stopped"].decision is Decision.FAIL


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.PENDING, JobStatus.SUCCEEDED])
def test_a_job_that_did_not_end_badly_gives_no_finding(status):
    assert ids(snapshot(ray=ray(*PODS, jobs=(job(status),)))) == []


def test_only_the_noted_submission_is_judged():
    seen = snapshot(ray=ray(*PODS, jobs=(job(JobStatus.FAILED, driver_exit_code=7), job(id="train-2"))))
    assert ids(seen, submission="train-2") == []
    assert ids(seen, submission="train-1") == ["entrypoint-failed"]


def test_a_submission_that_ray_does_not_know_in_the_same_session_was_deleted():
    seen = snapshot()
    assert ids(seen, submission="train-1", session=SESSION) == ["submission-deleted"]
    assert ids(seen, submission="train-1") == []
    assert ids(replace(seen, gaps=gap("ray.jobs")), submission="train-1", session=SESSION) == []


@pytest.mark.parametrize(
    ("name", "expected", "words"),
    [
        ("exit-code-seven-t035s", "entrypoint-failed", "exit code 7"),
        ("no-such-command-t035s", "entrypoint-not-found", "127"),
    ],
)
def test_recorded_ends(name, expected, words):
    finding = found(moment(name))[expected]
    assert words in finding.summary
    assert finding.decision is Decision.FAIL
    assert finding.consequence_of == ()


def test_of_a_traceback_its_last_line_is_quoted():
    trace = '  File "/x/protocol.py", line 66, in _handle\n    raise ImportError(\n'
    trace += "ImportError: You must `pip install smart_open`\n"
    end = job(JobStatus.FAILED, error_type="RUNTIME_ENV_SETUP_FAILURE", message=f"runtime_env setup failed:\n{trace}")
    finding = found(snapshot(ray=ray(*PODS, jobs=(end,))))["runtime-env-failed"]
    assert finding.summary.endswith("could not be set up: ImportError: You must `pip install smart_open`")
