"""Level 4, against the past: each GPU with what it, or its product, measured in earlier verifications. Pure.

Only figures of one device are compared: a collective's depend on who takes part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from rayflight.findings import Check
from rayflight.specs import ClusterSpec
from rayflight.verification.devices import simulated
from rayflight.verification.outliers import ENOUGH, below_earlier
from rayflight.verification.probed import Answers, devices_of, facts_of, gpu_of, number, rank_named
from rayflight.verification.rows import Row

_COPIES = ("to_device_gbps", "to_host_gbps")


def speed_kept(spec: ClusterSpec, ranks: Sequence[Answers], earlier: Mapping[str, Any]) -> Check:
    """Warned about or failed as a straggler is: a GPU that became slow is one, though its neighbours did, too."""
    on_gpu = [rank for rank in ranks if rank.get("gpu_ids")]
    slow: list[tuple[Answers, str]] = []
    compared = 0
    for rank in on_gpu:
        for name, value in _figures(rank):
            whose, before = _before(rank, name, earlier)
            compared += len(before) >= ENOUGH
            if below_earlier(value, before):
                fell = 100 * (1 - value / median(before))
                told = f"{name} {value:g}, {fell:.0f} % below {median(before):g}, the median of {whose}"
                slow.append((rank, f"{told} in {len(before)} earlier verifications"))
    row = Row(
        id="speed-kept",
        level=4,
        subject="each GPU against earlier verifications",
        expected="none far below what it, or its product, measured before",
        next_step="look at that GPU's clocks, heat and links; compare with its history (verify_gpu_pool)",
        facts=facts_of(slow[0][0]) if slow else {},
    )
    if not on_gpu or simulated(spec, on_gpu):
        return row.not_applicable("SIMULATED: speeds of no device" if on_gpu else "no rank has a GPU")
    if not compared:
        return row.not_applicable(f"nothing to compare with: that takes {ENOUGH} earlier verifications")
    if not slow:
        return row.passed(f"{compared} figures compared")
    text = "; ".join(f"{rank_named(rank)}: {why}" for rank, why in slow)
    return row.failed(text) if spec.verification.straggler == "fail" else row.warned(text)


def _figures(rank: Answers) -> Iterator[tuple[str, float]]:
    """By the names that the pool's history keeps them under."""
    copied = rank.get("copy") or {}
    found = {f"copy.{key}": copied.get(key) for key in _COPIES}
    formats = ((rank.get("compute") or {}).get("formats") or {}).items()
    found |= {f"compute.{name}.tflops": (it or {}).get("tflops") for name, it in formats}
    for name, told in found.items():
        value = number(told)
        if value is not None:
            yield name, value


def _before(rank: Answers, figure: str, earlier: Mapping[str, Any]) -> tuple[str, Sequence[float]]:
    """This very GPU where it was measured often enough, else its product."""
    uuid = gpu_of(rank)
    own = (earlier.get("gpus") or {}).get(uuid, {}).get(figure, ())
    if len(own) >= ENOUGH:
        return "this GPU", own
    name = next((str(it.get("name")) for it in devices_of(rank) if it.get("uuid") == uuid), "")
    return f"{name or 'its product'}", (earlier.get("products") or {}).get(name, {}).get(figure, ())
