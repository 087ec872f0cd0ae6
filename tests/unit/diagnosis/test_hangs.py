"""Who stands where in a silent training: the one that is waited for is named, and nobody when that is not seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from rayflight.snapshot.hang import Hang, Sample
from rayflight.states import JobStatus
from tests.examples.hangs import BARRIER, COMPUTING, EXAMPLES, LOADER, MUTE, rank, reducing, silence, stack
from tests.examples.shape import NOTED, PODS
from tests.made_up import job, ray, snapshot
from tests.unit.diagnosis.asking import found, ids


def hang_of(name: str) -> Hang:
    hang = EXAMPLES[name].seen.hang
    assert hang is not None
    return hang


def seen_of(hang: Hang, status: JobStatus = JobStatus.RUNNING):
    return snapshot(ray=ray(*PODS, jobs=(job(status),)), hang=hang)


@pytest.mark.parametrize(
    ("on_hang", "decision"),
    [("report", Decision.WAIT), ("fail", Decision.FAIL), ("retry", Decision.RETRY_ELSEWHERE)],
)
def test_the_job_says_what_becomes_of_a_hang(on_hang, decision):
    hang = replace(hang_of("rank-stuck"), on_hang=on_hang)
    assert found(seen_of(hang), **NOTED)["rank-stuck"].decision is decision


def test_who_is_slow_is_waited_for_whatever_the_job_says():
    hang = replace(hang_of("rank-slow"), on_hang="fail")
    assert found(seen_of(hang), **NOTED)["rank-slow"].decision is Decision.WAIT


def test_of_two_ranks_the_one_in_the_collective_is_the_one_that_waits():
    said = found(seen_of(silence(rank(0, LOADER), rank(1, reducing()))), **NOTED)["rank-stuck"].summary
    assert said.startswith("rank 0 on pod")
    assert "1 other waits for it in all_reduce" in said


def backward(*, busy: bool) -> Sample:
    """As PyTorch 2.6 with gloo stands there while it waits for the other ranks' gradients (then it is not busy)."""
    return stack(
        ("_engine_run_backward", "torch/autograd/graph.py", 823),
        ("backward", "torch/autograd/__init__.py", 347),
        ("Tensor.backward", "torch/_tensor.py", 626),
        ("step", "train.py", 44),
        busy=busy,
    )


@pytest.mark.parametrize(
    ("busy", "others"),
    [(False, "1 other waits for it in its backward pass"), (True, "rank 0: computing, in step (train.py:44)")],
)
def test_of_two_ranks_the_one_in_its_backward_pass_waits_for_the_other(busy, others):
    """DDP exchanges gradients there: no Python frame tells of the collective."""
    said = found(seen_of(silence(rank(0, backward(busy=busy)), rank(1, LOADER))), **NOTED)["rank-stuck"].summary
    assert said.startswith("rank 1 on pod")
    assert others in said


def test_a_barrier_and_a_backward_pass_are_collectives_out_of_step():
    hang = silence(rank(0, BARRIER), rank(1, backward(busy=False)))
    said = found(seen_of(hang), **NOTED)["collectives-out-of-step"].summary
    assert "rank 1 on pod" in said
    assert "waiting in its backward pass, in step (train.py:44)" in said
    assert "rank 0 waits in barrier, called at evaluate (train.py:61)" in said


def test_of_two_ranks_one_of_which_computes_both_are_named():
    busy = stack(("conv2d", "model.py", 5), busy=True)
    said = found(seen_of(silence(rank(0, busy), rank(1, LOADER))), **NOTED)["training-stands-still"].summary
    assert "computing, in conv2d (model.py:5)" in said
    assert "waiting for input data, in step (train.py:33)" in said


def test_of_two_ranks_in_no_collective_nobody_is_blamed():
    lock = stack(("Lock.acquire", "threading.py", 1), ("step", "train.py", 70))
    said = found(seen_of(silence(rank(0, LOADER), rank(1, lock))), **NOTED)["training-stands-still"].summary
    assert "rank 0 on pod" in said
    assert "waiting for input data" in said
    assert "waiting for another thread, in step (train.py:70)" in said


def test_what_moves_everywhere_is_no_hang():
    assert ids(seen_of(silence(rank(0, *COMPUTING), rank(1, *COMPUTING))), **NOTED) == []


def test_a_long_step_that_computes_is_no_hang():
    busy = stack(("conv2d", "model.py", 5), busy=True)
    assert ids(seen_of(silence(rank(0, busy), rank(1, busy))), **NOTED) == []


def test_one_sample_tells_nothing():
    hang = replace(hang_of("rank-stuck"), taken_at=("2026-12-01T10:00:50Z",))
    assert ids(seen_of(hang), **NOTED) == []


def test_when_nobody_answers_nobody_is_blamed():
    assert ids(seen_of(silence(rank(0, MUTE), rank(1, MUTE))), **NOTED) == []


@pytest.mark.parametrize(
    ("samples", "blamed"),
    [
        ((), False),
        ((Sample(why="py-spy may not look into it"),) * 2, False),  # a refusal says nothing of the process
        ((Sample(why="no answer", unanswered=True), Sample(why="py-spy may not look into it")), False),
        ((Sample(why="no answer", unanswered=True),) * 2, True),
        ((Sample(why="refused"), Sample(state="D", why="in the kernel")), True),
        ((Sample(why="refused"), Sample(state="S", why="refused")), False),
    ],
)
def test_only_who_could_answer_and_does_not_is_blamed_for_it(samples, blamed):
    quiet = replace(rank(1, MUTE), samples=samples)
    assert ("rank-does-not-answer" in ids(seen_of(silence(rank(0, reducing()), quiet)), **NOTED)) is blamed


def test_the_stacks_of_another_submission_or_of_an_ended_one_say_nothing():
    hang = hang_of("rank-stuck")
    assert ids(seen_of(replace(hang, submission="another")), **NOTED) == []
    assert ids(seen_of(hang, JobStatus.SUCCEEDED), **NOTED) == []


def test_a_job_that_was_ended_for_its_hang_was_stopped_by_nobody_else():
    hang = replace(hang_of("rank-stuck"), on_hang="fail", ended=True)
    assert ids(seen_of(hang, JobStatus.STOPPED), **NOTED) == ["rank-stuck"]
    assert ids(seen_of(replace(hang, ended=False), JobStatus.STOPPED), **NOTED) == ["job-stopped"]
    assert ids(seen_of(replace(hang, submission="another"), JobStatus.STOPPED), **NOTED) == ["job-stopped"]


def test_ranks_of_one_collective_stand_together_whatever_their_part_in_it():
    """Rank 0 receives from everybody, the others from rank 0: below the collective that is no difference."""
    deep = Sample(frames=(replace(LOADER.frames[0], function="_recv", line=9), *reducing().frames))
    said = found(seen_of(silence(rank(0, deep), rank(1, reducing()), rank(2, BARRIER))), **NOTED)
    assert said["collectives-out-of-step"].summary.startswith("rank 2 on pod")


def test_many_ranks_are_counted_and_the_outlier_is_named():
    hang = silence(*(rank(number, reducing()) for number in range(63)), rank(63, LOADER))
    said = found(seen_of(hang), **NOTED)["rank-stuck"].summary
    assert said.startswith("rank 63 on pod")
    assert "63 others wait for it in all_reduce" in said
