"""What nobody settled is "unknown", with the facts; Ray's guesses are confirmed or called unconfirmed."""

from dataclasses import replace

import pytest

from rayflight.diagnosis import diagnose
from rayflight.findings import Decision
from rayflight.states import JobStatus
from tests.examples.jobs import LAST, WATCHDOG
from tests.examples.shape import PODS, failed, running
from tests.made_up import NODES, READY, at, cluster, gap, head, job, ray, snapshot, worker

LATE = "2026-12-01T10:30:00.000Z"


def judged(**changes):
    return diagnose(snapshot(**changes))


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error 205: Error 205: mapping of buffer object failed",
        "ValueError: Current node has no GPU available",
        "JobFailed: SchedulingCancelled: Actor creation cancelled",
        "[rank0] ProcessGroupNCCL's watchdog got stuck for 600 seconds",
    ],
)
def test_an_end_that_nobody_settled_is_unknown_and_quoted(line):
    found = judged(**failed("Job entrypoint command failed with exit code 1", log=line, driver_exit_code=1))
    assert (found.verdict, found.cause) == ("unknown", None)
    assert any(line[:60] in fact for fact in found.facts)


def test_a_collective_that_timed_out_names_who_waited_and_where_but_no_cause():
    log = "\n".join(WATCHDOG.format(rank=rank, number=5020, what="ALLREDUCE") for rank in (0, 1, 3))
    found = judged(**failed("exit code 1", log=log, driver_exit_code=1))
    assert found.verdict == "unknown"
    assert any("rank 0 at 5020 (ALLREDUCE), rank 1 at 5020" in fact for fact in found.facts)


def log_of(ranks, tail=""):
    return f"Setting up process group for: env:// [rank=0, world_size=4]\n{tail}\n" + "\n".join(
        WATCHDOG.format(rank=rank, number=5020, what="ALLREDUCE") for rank in ranks
    )


def test_the_one_rank_of_a_known_number_that_waited_nowhere_is_named():
    found = judged(**failed("exit code 1", log=log_of((0, 1, 3)), driver_exit_code=1))
    assert found.cause.id == "nccl-rank-behind"
    assert "rank 2 of 4 was not there" in found.cause.summary
    assert found.cause.decision is Decision.RETRY_ELSEWHERE


@pytest.mark.parametrize(
    ("ranks", "tail"),
    [
        ((0, 1, 2, 3), ""),
        ((0, 1), ""),
        ((0, 1, 3), f"{WATCHDOG.format(rank=0, number=5020, what='ALLREDUCE')} [repeated 3x across cluster]"),
        ((0, 1, 3), "another group: world_size=2"),
    ],
)
def test_where_ray_folds_lines_or_the_number_is_not_sure_nobody_is_named(ranks, tail):
    assert judged(**failed("exit code 1", log=log_of(ranks, tail), driver_exit_code=1)).verdict == "unknown"


def test_an_end_that_settles_nothing_is_listed_under_what_explains_it():
    log = WATCHDOG.format(rank=0, number=7, what="ALLREDUCE")
    gone = replace(NODES[2], conditions=(replace(READY, status="Unknown", since=at(30)),))
    found = judged(nodes=(*NODES[:2], gone), **failed("exit code 1", log=log, driver_exit_code=1))
    assert found.cause.id == "node-not-ready"
    assert [item.id for item in found.consequences] == ["submission-failed"]


def test_ranks_that_all_entered_the_collective_are_no_stragglers():
    log = "\n".join(
        [
            WATCHDOG.format(rank=rank, number=7, what="ALLREDUCE") + "\n" + LAST.format(rank=rank, last=8)
            for rank in (0, 1)
        ]
    )
    assert judged(**failed("exit code 1", log=log, driver_exit_code=1)).verdict == "unknown"


def test_a_guess_of_memory_that_kubernetes_does_not_confirm_is_called_unconfirmed():
    log = "ray.exceptions.WorkerCrashedError: ... connection error code 2. End of file. (1) killed by the OOM killer"
    found = judged(**failed("exit code 1", log=log, driver_exit_code=1))
    assert any("not confirmed" in fact for fact in found.facts)
    assert found.cause.id == "worker-process-died"
    assert "OOM" not in found.cause.title + found.cause.next_step


def test_a_refused_autoscaler_is_a_fact():
    broken = snapshot(
        ray=ray(head(), worker(1)), logs={f"{head().name}/autoscaler": "ApiException: 403 Forbidden: cannot get"}
    )
    found = diagnose(broken)
    assert found.verdict == "unknown"
    assert any("scaling is off, training may still run" in fact for fact in found.facts)


def test_a_device_plugin_that_waits_is_quoted():
    found = judged(logs={"nvidia-device-plugin-x/plugin": "No devices found. Waiting indefinitely."})
    assert (found.verdict, "found no device" in found.facts[0]) == ("unknown", True)


def test_workers_that_ray_does_not_know_are_named_with_the_last_words_of_their_raylets():
    found = judged(ray=ray(head(), worker(1)), logs={f"{worker(2).name}/raylet": "start\nFailed to connect to GCS"})
    assert found.verdict == "unknown"
    assert any("worker-2 runs, but is not ALIVE" in fact for fact in found.facts)
    assert any("Failed to connect to GCS" in fact for fact in found.facts)


def test_a_submission_that_stays_pending_shows_that_resources_are_free():
    waiting = job(JobStatus.PENDING, ray_job="", runtime_env=("env_vars",), message="It may wait for resources")
    found = judged(ray=ray(*PODS, jobs=(waiting,), usage=("0.0/4.0 CPU",)), taken_at=LATE)
    assert found.verdict == "unknown"
    assert any("its runtime_env has env_vars" in fact for fact in found.facts)
    assert any("0.0/4.0 CPU" in fact for fact in found.facts)


def test_an_idle_worker_that_an_autoscaler_left_is_a_fact():
    group = replace(cluster().groups[0], minimum=0)
    over = ray(*PODS, jobs=(job(JobStatus.SUCCEEDED, ended_at=at(50)),))
    found = judged(cluster=cluster(autoscaling=True, groups=(group,)), ray=over, taken_at=LATE)
    assert any("not scaled down" in fact for fact in found.facts)
    assert judged(ray=over, taken_at=LATE).verdict == "healthy"


def test_a_hang_in_which_all_is_placed_is_not_called_a_fault():
    assert judged(**running(log="init_process_group ...")).verdict == "healthy"


def test_what_could_not_be_read_is_named():
    assert judged(gaps=gap("nodes")).gaps == ("nodes: forbidden",)
