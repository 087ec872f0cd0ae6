"""A probe's result crossed a job's log: whatever it says, it is judged, never believed and never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rayflight.rayjobs.probe import probe_result
from rayflight.verification import blocking, verify_all
from rayflight.verification.probe_schema import RANK, WHOLE, leaves
from rayflight.verification.probed import Probed
from tests.unit.verification.probing import (
    FORMATS,
    GPU_COMPUTE,
    device,
    rank,
    result,
    rows,
    snapshot_with_store,
    spec,
    verdicts,
)

NAN = float("nan")
SEEN = snapshot_with_store()


def blocked(probed):
    return {check.id for check in blocking(verify_all(spec(), SEEN, probed))}


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        ({}, "no list of ranks"),
        ({"ranks": "two"}, "no list of ranks"),
        ({"ranks": [None, 3]}, "no list of ranks"),
        ({"schema": 2, "ranks": []}, "schema 2"),
        ({"schema": "1", "ranks": []}, "schema '1'"),
    ],
)
def test_a_document_of_another_form_fails_the_probe(whole, words):
    (row,) = rows("probe-ran", probed=whole)
    assert row.verdict == "failed"
    assert words in row.observed
    assert {"probe-ran", "gpu-count"} <= blocked(whole)


@pytest.mark.parametrize("line", ["RAYFLIGHT_PROBE_RESULT {", "RAYFLIGHT_PROBE_RESULT [1]", "RAYFLIGHT_PROBE_RESULT",
                                  "RAYFLIGHT_PROBE_RESULT \x00\xff", ""])  # fmt: skip
def test_a_log_with_garbage_in_place_of_the_result_has_none(line):
    assert probe_result(f"before\n{line}\nafter") is None


def placed(whole: Any, path: tuple[str, ...], value: object) -> Any:
    """A copy with this value at that place; ``*`` and ``0`` are the first key and the first item there."""
    if not path:
        return value
    first, *rest = path
    if isinstance(whole, list):
        return [placed(whole[0] if whole else {}, tuple(rest), value), *whole[1:]]
    inner = dict(whole) if isinstance(whole, dict) else {}
    key = next(iter(inner), "x") if first == "*" else first
    return {**inner, key: placed(inner.get(key), tuple(rest), value)}


STRANGE = ["?", 7, -1.5, [1], [{}], [[]], {"x": []}, {}, True, NAN, None]


@pytest.mark.parametrize("path", list(leaves(RANK)), ids=".".join)
def test_anything_in_any_place_of_a_rank_is_judged_without_an_exception(path):
    for value in STRANGE:
        verify_all(spec(), SEEN, result(rank(0), placed(rank(1), path, value)))


@pytest.mark.parametrize("path", list(leaves(WHOLE)), ids=".".join)
def test_anything_in_any_place_of_the_document_is_judged_without_an_exception(path):
    for value in STRANGE:
        verify_all(spec(), SEEN, placed(result(after={"ray-worker-uid-2": {"held": []}}), path, value))


def test_an_answer_of_another_kind_than_the_schema_says_is_dropped_and_said():
    probed = result(rank(0), rank(1, devices="GPU-1", compute=[1, 2]))
    assert verdicts("gpu-count", probed=probed) == ["passed", "unknown"]
    (row,) = rows("probe-ran", probed=probed)
    assert row.verdict == "failed"
    assert "devices: str is not of the probe's schema" in row.evidence
    assert "compute: list is not of the probe's schema" in row.evidence


@pytest.mark.parametrize(
    "compute",
    [
        {**GPU_COMPUTE, "max_error": NAN},
        {**GPU_COMPUTE, "max_error": None},
        {**GPU_COMPUTE, "formats": {**FORMATS, "bf16": {"ok": False, "max_error": NAN, "error": None}}},
        {**GPU_COMPUTE, "formats": {**FORMATS, "bf16": "fast"}},
        {**GPU_COMPUTE, "matmul_ok": False},
    ],
    ids=["nan", "none", "nan in bf16", "text for bf16", "said wrong"],
)
def test_numbers_that_are_none_are_never_right(compute):
    row = rows("compute", probed=result(rank(0), rank(1, compute=compute)))[1]
    assert row.verdict == "failed"
    assert "WRONG" in row.observed


def test_a_bandwidth_that_is_no_number_is_not_shown():
    odd = {**rank(0)["collective"], "bandwidth_gbps": NAN}
    assert rows("collective", probed=result(rank(0, collective=odd), rank(1)))[0].observed == (
        "nccl, slowest rank 101 GB/s"
    )


def test_two_ranks_with_one_number_fail():
    (row,) = rows("probe-ran", probed=result(rank(0), {**rank(1), "rank": 0}))
    assert row.verdict == "failed"
    assert "more than one rank with the number 0" in row.observed


def test_more_devices_than_owned_fewer_and_the_same_in_two_pods_fail():
    more = rank(1, devices=[device("GPU-1"), device("GPU-9")])
    assert "gpu-count" in blocked(result(rank(0), more))
    assert "gpu-count" in blocked(result(rank(0), rank(1, devices=[], devices_error="nvidia-smi is not there")))
    assert "gpu-uuids-unique" in blocked(result(rank(0), rank(1, devices=[device("GPU-0")])))


def test_a_result_survives_its_way_through_json():
    probed: Any = result(rank(0), rank(1, compute={**GPU_COMPUTE, "max_error": NAN}))
    assert Probed.read(json.loads(json.dumps(probed))).ranks[0]["pod"] == "flight-gpu-worker-1"
    assert "compute" in blocked(json.loads(json.dumps(probed)))
