"""Level 4: floors, and each rank against the others."""

from __future__ import annotations

import pytest

from rayflight.errors import InvalidSpec
from rayflight.verification.outliers import far_below
from tests.unit.verification.probing import COPY, FORMATS, GPU_COMPUTE, rank, result, rows, spec, verdicts


def computing(tflops):
    return {**GPU_COMPUTE, "formats": {**FORMATS, "bf16": {**FORMATS["bf16"], "tflops": tflops}}}


def ranks(*bf16):
    return result(*(rank(number, compute=computing(tflops)) for number, tflops in enumerate(bf16)))


def floors(**wanted):
    return spec(verification=wanted)


@pytest.mark.parametrize(
    ("values", "slow"),
    [
        ([100, 101, 99, 60], [3]),
        ([100, 100, 100, 95], []),
        ([100, 60], []),
        ([100, 100, 60], [2]),
        ([50, 100, 75, 125, 60], []),
        ([100] * 6 + [1, 2], [6, 7]),
        ([60, 60, 60, 100], []),
    ],
    ids=["one of four", "within a tenth", "two", "one of three", "all apart", "two of eight", "one is faster"],
)
def test_far_below_the_others_is_robust(values, slow):
    assert list(far_below(dict(enumerate(map(float, values))))) == slow


@pytest.mark.parametrize(("setting", "verdict"), [("warn", "warned"), ("fail", "failed")])
def test_a_slow_rank_is_named_and_warned_about_or_failed_by_setting(setting, verdict):
    (row,) = rows("stragglers", probed=ranks(239, 100, 241, 239), asked=floors(straggler=setting))
    assert row.verdict == verdict
    assert row.observed.startswith("rank 1 in pod flight-gpu-worker-2 on node gpu-2: bf16 TFLOP/s")
    assert "100, the median is 239" in row.observed
    assert row.facts["node"] == "gpu-2"


def test_a_slow_link_names_the_rank_that_receives_over_it():
    def linked(number, gbps):
        return rank(number, collective={**rank(0)["collective"], "from_previous_gbps": gbps})

    probed = result(*(linked(number, gbps) for number, gbps in enumerate([20.0, 20.1, 3.0, 19.9])))
    (row,) = rows("stragglers", probed=probed)
    assert row.verdict == "warned"
    assert "GB/s from the rank before" in row.observed
    assert "rank 2" in row.observed


def test_two_ranks_or_two_products_have_no_outlier():
    assert verdicts("stragglers", probed=ranks(240, 100)) == ["not applicable"]
    other = {**computing(60.0), "device": "cuda:0 NVIDIA T4"}
    probed = result(*(rank(number, compute=computing(240.0)) for number in range(3)), rank(3, compute=other))
    assert verdicts("stragglers", probed=probed) == ["passed"]


@pytest.mark.parametrize(
    ("row", "floor", "changes", "words"),
    [
        ("matmul-speed", {"min_matmul_tflops": 200}, {"compute": computing(150.0)}, "150 TFLOP/s"),
        ("copy-speed", {"min_copy_gbps": 20}, {"copy": {**COPY, "to_host_gbps": 6.0}}, "6 GB/s"),
        ("allreduce-speed", {"min_allreduce_gbps": 50},
         {"collective": {**rank(0)["collective"], "bandwidth_gbps": 5.0}}, "5 GB/s"),
    ],
)  # fmt: skip
def test_a_rank_below_a_floor_fails_and_is_named(row, floor, changes, words):
    assert verdicts(row, asked=floors(**floor)) == ["passed"]
    (check,) = rows(row, probed=result(rank(0), rank(1, **changes)), asked=floors(**floor))
    assert check.verdict == "failed"
    assert check.observed == f"rank 1 in pod flight-gpu-worker-2 on node gpu-2: {words}"


@pytest.mark.parametrize("tflops", [None, float("nan"), float("inf"), "fast", True])
def test_a_floor_without_a_figure_is_not_checked_and_never_passes(tflops):
    broken = {**GPU_COMPUTE, "formats": {"bf16": {"ok": True, "tflops": tflops}}}
    probed = result(rank(0), rank(1, compute=broken))
    assert verdicts("matmul-speed", probed=probed, asked=floors(min_matmul_tflops=200)) == ["unknown"]
    assert verdicts("matmul-speed", probed=probed, asked=floors(min_matmul_tflops=200, strict=True)) == ["failed"]


def test_a_device_without_bf16_is_measured_by_its_next_format():
    old = {**GPU_COMPUTE, "formats": {"fp32": FORMATS["fp32"], "fp16": FORMATS["fp16"]}}
    assert verdicts("matmul-speed", probed=result(rank(0, compute=old), rank(1, compute=old)),
                    asked=floors(min_matmul_tflops=200)) == ["passed"]  # fmt: skip


def test_without_floors_the_figures_are_still_told():
    (row,) = rows("matmul-speed")
    assert (row.verdict, row.observed) == ("not applicable", "no floor is set; slowest 240 TFLOP/s, fastest 240")


def test_the_speed_of_simulated_gpus_is_nobodys():
    probed = result(rank(0, simulated=True), rank(1, simulated=True))
    asked = spec(simulated=True, verification={"min_matmul_tflops": 1000})
    assert verdicts("matmul-speed", probed=probed, asked=asked) == ["not applicable"]
    assert verdicts("stragglers", probed=probed, asked=asked) == ["not applicable"]


@pytest.mark.parametrize("wrong", [{"min_copy_gbps": 0}, {"min_copy_gbps": float("nan")}, {"straggler": "ignore"}])
def test_a_floor_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidSpec):
        floors(**wrong)
