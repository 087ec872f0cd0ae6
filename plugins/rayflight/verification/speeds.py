"""Level 4, how fast: absolute floors where the shape has them, and always each GPU against the others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayflight.findings import Check
from rayflight.specs import ClusterSpec
from rayflight.verification.devices import simulated
from rayflight.verification.outliers import FEWEST, far_below
from rayflight.verification.probed import Answers, facts_of, number, rank_named
from rayflight.verification.rows import Row

_SIMULATED = "SIMULATED: speeds of no device"
_PREFERRED = ("bf16", "fp16", "fp32")


def speed_rows(spec: ClusterSpec, ranks: Sequence[Answers]) -> Iterator[Check]:
    """Floors first, then who is far below the others."""
    wanted = spec.verification
    measured = [rank for rank in ranks if rank.get("gpu_ids")] or list(ranks)
    yield _floor("matmul-speed", "products", wanted.min_matmul_tflops, "TFLOP/s", spec, [
        (rank, _matmul(rank)) for rank in measured])  # fmt: skip
    yield _floor("copy-speed", "copies between host and device", wanted.min_copy_gbps, "GB/s", spec, [
        (rank, _copy(rank)) for rank in measured])  # fmt: skip
    yield _floor("allreduce-speed", "all-reduce", wanted.min_allreduce_gbps, "GB/s", spec, [
        (rank, number((rank.get("collective") or {}).get("bandwidth_gbps"))) for rank in measured])  # fmt: skip
    yield _stragglers(spec, measured)


def _floor(
    name: str,
    subject: str,
    floor: float | None,
    unit: str,
    spec: ClusterSpec,
    values: Sequence[tuple[Answers, float | None]],
) -> Check:
    slow = [(rank, value) for rank, value in values if floor and value is not None and value < floor]
    row = Row(
        id=name,
        level=4,
        subject=f"speed of {subject}",
        expected=f"at least {floor:g} {unit} on every rank" if floor else "no floor is set",
        next_step="look at the slow rank's GPU (clocks, links, other processes), or lower the floor in the shape",
        facts=facts_of(slow[0][0]) if slow else {},
    )
    known = [value for _, value in values if value is not None]
    seen = f"slowest {min(known):g} {unit}, fastest {max(known):g}" if known else "nothing was measured"
    if not floor:
        return row.not_applicable(f"no floor is set; {seen}")
    if simulated(spec, [rank for rank, _ in values]):
        return row.not_applicable(_SIMULATED)
    if slow:
        return row.failed("; ".join(f"{rank_named(rank)}: {value:g} {unit}" for rank, value in slow))
    missing = [rank_named(rank) for rank, value in values if value is None]
    return row.unknown(f"no figure of {', '.join(missing) or 'any rank'}") if missing or not known else row.passed(seen)


def _matmul(rank: Answers) -> float | None:
    formats = (rank.get("compute") or {}).get("formats") or {}
    figures = [number((formats.get(name) or {}).get("tflops")) for name in _PREFERRED]
    return next((figure for figure in figures if figure is not None), None)


def _copy(rank: Answers) -> float | None:
    found = rank.get("copy") or {}
    both = [number(found.get(key)) for key in ("to_device_gbps", "to_host_gbps")]
    return min((it for it in both if it is not None), default=None) if None not in both else None


def _stragglers(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    """Only ranks on the same product are compared: a mixed cluster is said by gpu-alike."""
    found: list[tuple[float, Answers, str]] = []
    compared = 0
    for measure, values in _measures(ranks).items():
        compared += len(values) >= FEWEST
        by_number = {at: value for at, (_, value) in enumerate(values)}
        middle = sorted(by_number.values())[len(by_number) // 2]
        found += [
            (by_number[at] / middle, values[at][0], f"{measure} {by_number[at]:g}, the median is {middle:g}")
            for at in far_below(by_number)
        ]
    slow = [(rank, why) for _, rank, why in sorted(found, key=lambda it: it[0])]  # the slowest is the one to look at
    row = Row(
        id="stragglers",
        level=4,
        subject="each rank against the others",
        expected="none far below the median (median and MAD)",
        next_step="every rank waits for the slowest: look at that GPU's clocks, links and node",
        facts=facts_of(slow[0][0]) if slow else {},
    )
    if simulated(spec, ranks):
        return row.not_applicable(_SIMULATED)
    if not compared:
        return row.not_applicable(f"an outlier needs {FEWEST} measurements of a kind")
    if not slow:
        return row.passed(f"none; {compared} figures compared over {len(ranks)} ranks")
    text = "; ".join(f"{rank_named(rank)}: {why}" for rank, why in slow)
    return row.failed(text) if spec.verification.straggler == "fail" else row.warned(text)


def _measures(ranks: Sequence[Answers]) -> dict[str, list[tuple[Answers, float]]]:
    """Figure → (rank, value), one entry for each kind of device."""
    found: dict[str, list[tuple[Answers, float]]] = {}
    for rank in ranks:
        compute, copy = rank.get("compute") or {}, rank.get("copy") or {}
        device = str(compute.get("device") or "").removeprefix("cuda:0 ")
        figures = {f"{name} TFLOP/s": (it or {}).get("tflops") for name, it in (compute.get("formats") or {}).items()}
        figures |= {"GB/s to the device": copy.get("to_device_gbps"), "GB/s to the host": copy.get("to_host_gbps")}
        figures |= {"GB/s from the rank before": (rank.get("collective") or {}).get("from_previous_gbps")}
        for name, value in figures.items():
            figure = number(value)
            if figure is not None:
                found.setdefault(f"{name} ({device})", []).append((rank, figure))
    return found
