"""Both sides of the probe's document speak one schema: the probe imports nothing of Rayflight, so a test compares."""

from __future__ import annotations

from rayflight.probe import questions
from rayflight.probe.child import in_child
from rayflight.probe.surroundings import disk, head, shared_memory
from rayflight.verification.probe_schema import RANK, SCHEMA, WHOLE, cut


def test_both_sides_have_one_version():
    assert questions.SCHEMA == SCHEMA


def test_verification_reads_no_answer_that_the_probe_does_not_give():
    assert set(RANK) - set(questions._ANSWERS) == {"devices_error"}  # only there when there is one
    assert set(WHOLE) < set(questions.Questions([], 0.0).result(1.0))


def test_what_the_probe_measures_is_of_the_schema(steer, tmp_path):
    measured = {
        "nvml": in_child("nvml", 20),
        "copy": in_child("cuda", 20),
        "shared_memory": shared_memory(str(tmp_path)),
        "head": head("127.0.0.1:1"),
        "disk": disk(str(tmp_path)),
    }
    answers = {**measured, "devices": measured["nvml"].pop("devices")}
    assert cut(answers, RANK) == (answers, ())
