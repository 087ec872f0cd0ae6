"""Level 4: a small job ran on each bundle, its numbers are right: compute, collective, object store, storage. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rayflight.findings import Check
from rayflight.specs import ClusterSpec
from rayflight.verification.devices import simulated
from rayflight.verification.probed import (
    NO_ANSWER,
    Answers,
    Probed,
    facts_of,
    gpu_of,
    not_asked,
    number,
    rank_named,
    silent,
)
from rayflight.verification.rows import Row, counted
from rayflight.verification.speed_kept import speed_kept
from rayflight.verification.speeds import speed_rows
from rayflight.verification.surroundings import left_row, surrounding_rows

_NEVER_STARTED = (
    "no process of the probe started there: Ray's processes find the head by its name, so look at that pod's DNS "
    "first, then at raylet.out and the disk of the pod"
)
_FELL_SILENT = (
    "a rank that began and gave no answer hangs in its driver or on the network: run `nvidia-smi` in the pod that is "
    "named first and read the kernel's log of its node; all ranks stand in verification.json of the run's archive"
)
_NAMED = 3  # silent ranks in one sentence
_NOTICED = 0.9  # of the fastest link: a smaller difference names nobody
_REDUCING = ("add", "all_reduce", "collective")
# Questions of the probe that have a row of their own here.
_JUDGED = frozenset({"put", "get", "write", "read_all", "copy", "compute", *_REDUCING})


def level4(
    spec: ClusterSpec, probed: Probed | None, probe_log: str = "", earlier: Mapping[str, Any] | None = None
) -> tuple[Check, ...]:
    """``probed`` None means: the probe's job gave no result; its log's tail is then the evidence."""
    return tuple(_rows(spec, probed, probe_log, earlier or {}))


def _bundles(spec: ClusterSpec) -> int:
    """One per GPU, and one per worker pod that has none."""
    return sum(group.pods * (group.gpus or 1) for group in spec.groups)


def _rows(spec: ClusterSpec, probed: Probed | None, probe_log: str, earlier: Mapping[str, Any]) -> Iterator[Check]:
    yield _ran(spec, probed, probe_log)
    if probed is None or probed.problem or probed.placement_error:
        return
    yield from surrounding_rows(probed)
    yield _copy(spec, probed.ranks)
    for rank in probed.ranks:
        yield _compute(spec, rank)
    yield _collective(spec, probed.ranks)
    yield _object_store(probed.ranks)
    yield _storage(spec, probed.ranks)
    yield from speed_rows(spec, probed.ranks)
    yield speed_kept(spec, probed.ranks, earlier)
    yield left_row(probed)


def _ran(spec: ClusterSpec, probed: Probed | None, probe_log: str) -> Check:
    want = _bundles(spec)
    row = Row(
        id="probe-ran",
        level=4,
        subject="verification job",
        expected=f"{counted(want, 'bundle')} placed, each with a rank that answers",
        next_step="read what the verification job printed (its driver log, on Ray's dashboard and in the archive)",
    )
    if probed is None:
        return row.failed("the job gave no result", evidence=probe_log[-1000:])
    if probed.problem or probed.placement_error:
        return row.failed(
            probed.problem or probed.placement_error, evidence=probe_log[-1000:] if probed.problem else ""
        )
    mute = [rank for rank in probed.ranks if silent(rank)]
    broken = [rank for rank in probed.ranks if _unanswered(rank)]
    errors = "; ".join(f"{_placed(rank)}: {_unanswered(rank)}" for rank in broken)
    text = f"{counted(len(probed.ranks), 'rank')} in {probed.total_seconds:.1f} s"
    text += f", {_silent(mute)}" if mute else ""
    numbers = Counter(rank.get("rank") for rank in probed.ranks)
    twice = sorted(f"{given}" for given, count in numbers.items() if count > 1)
    text += f", more than one rank with the number {', '.join(twice)}" if twice else ""
    # More ranks than asked for: an autoscaled cluster has grown, or Ray offers GPUs that are none (gpu-count).
    right = len(probed.ranks) >= want and not mute and not errors and not twice
    blamed = facts_of((mute or broken)[0]) if mute or broken else {}
    if any(rank.get("python") is None for rank in mute):
        row = replace(row, next_step=_NEVER_STARTED)
    elif mute:
        row = replace(row, next_step=_FELL_SILENT)
    return replace(row, facts=blamed).judged(right, text, evidence=errors)


def _silent(mute: Sequence[Answers]) -> str:
    """A few by name: every one has its answers in the evidence."""
    more = f" and {len(mute) - _NAMED} more" if len(mute) > _NAMED else ""
    return f"{len(mute)} silent: {', '.join(map(rank_named, mute[:_NAMED]))}{more}"


def _unanswered(rank: Answers) -> str:
    """What the probe could not ask. A question with a row of its own is judged there, unless it was left hanging."""
    failed = (rank.get("failed") or {}).items()
    counted_here = [(name, text) for name, text in failed if name not in _JUDGED or str(text).startswith(NO_ANSWER)]
    return "; ".join(f"{name}: {text}" if name else str(text) for name, text in counted_here)


def _placed(rank: Answers) -> str:
    return rank_named(rank) + (f", GPU {gpu_of(rank)}" if gpu_of(rank) else "")


def _copy(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    """The CUDA driver alone, without torch: a context, memory, and copies of which every byte comes back."""
    on_gpu = [rank for rank in ranks if rank.get("gpu_ids")]
    wrong = [
        (rank, str(rank["copy"].get("error") or "no reason given"))
        for rank in on_gpu
        if rank.get("copy") and rank["copy"].get("ok") is False
    ]
    row = Row(
        id="gpu-copy",
        level=4,
        subject="CUDA driver: context, memory, copies",
        expected="every byte comes back from each rank's GPU",
        next_step="drain the node: its driver or GPU does not work",
        facts=facts_of(wrong[0][0]) if wrong else {},
    )
    if not on_gpu or simulated(spec, on_gpu):
        return row.not_applicable("SIMULATED: there is no driver to ask" if on_gpu else "no rank has a GPU")
    if wrong:
        return row.failed("; ".join(f"{_placed(rank)}: {why}" for rank, why in wrong))
    unseen = [rank for rank in on_gpu if not (rank.get("copy") or {}).get("ok")]
    if unseen:
        why = (unseen[0].get("copy") or {}).get("error") or unseen[0].get("error") or "no answer"
        return row.unknown(f"{', '.join(map(rank_named, unseen))}: {why}")
    return row.passed(", ".join(sorted({f"{rank['copy'].get('name')}" for rank in on_gpu})))


def _compute(spec: ClusterSpec, rank: Answers) -> Check:
    """Allocate, copy, multiply; on a GPU where the pod has one (a simulated GPU computes on the CPU, and says so)."""
    on_gpu = bool(rank.get("gpu_ids")) and not (spec.simulated and rank.get("simulated"))
    row = Row(
        id="compute",
        level=4,
        subject=rank_named(rank),
        expected=f"a product with right numbers on {'its GPU' if on_gpu else 'the CPU'}",
        next_step="wrong numbers mean a bad device; a CPU in place of the GPU means driver, CUDA or torch do not fit",
        facts={**facts_of(rank), "on_gpu": on_gpu},
    )
    found = rank.get("compute")
    if found is None:
        why = str(rank.get("error") or "")
        return row.unknown(why) if not_asked(rank, "compute") else row.failed("no answer", evidence=why)
    device = str(found.get("device") or "unknown")
    wrong = _wrong_numbers(found)
    formats = {name: it for name, it in (found.get("formats") or {}).items() if it}
    speeds = [f"{name} {speed:g}" for name, it in formats.items() for speed in [number(it.get("tflops"))] if speed]
    text = f"{device}, {found.get('seconds')} s, numbers {f'WRONG {wrong}' if wrong else 'right'}"
    text += f"; TFLOP/s: {', '.join(speeds)}" if speeds else ""
    unseen = [f"{name} was not checked: {it.get('error')}" for name, it in formats.items() if it.get("ok") is None]
    return row.judged(not wrong and (device.startswith("cuda") or not on_gpu), text, evidence="; ".join(unseen))


def _wrong_numbers(found: Answers) -> str:
    """Which product is wrong; a NaN is never right, whatever else the rank says."""
    error = number(found.get("max_error"))
    if not found.get("matmul_ok") and error != 0.0:
        return f"by {found.get('max_error')}"
    if error is None:
        return f"by {found.get('max_error')}"
    for name, it in (found.get("formats") or {}).items():
        if it is None or it.get("ok") is False:
            return f"in {name}: {(it or {}).get('error') or 'by ' + str((it or {}).get('max_error'))}"
    return "" if found.get("matmul_ok") else "said without a reason"


def _collective(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    real = any(rank.get("gpu_ids") for rank in ranks) and not spec.simulated
    row = Row(
        id="collective",
        level=4,
        subject=f"all-reduce over {counted(len(ranks), 'rank')}",
        expected=f"the right sum on every rank{', by NCCL on GPUs' if real else ''}",
        next_step="look at the ranks without a right sum, then at the network between their nodes",
    )
    answers = [(rank, rank.get("collective")) for rank in ranks]
    # Where CPU groups stand beside GPU groups, the probe reduces over each kind of rank by itself.
    sizes = Counter(bool(rank.get("cuda")) for rank in ranks)
    unseen = [rank for rank, found in answers if found is None and not_asked(rank, *_REDUCING)]
    bad = [
        (rank, found)
        for rank, found in answers
        if rank not in unseen
        and (
            found is None
            or not found.get("ok")
            or (found.get("node") or {}).get("ok") is False
            or found.get("world_size") != sizes[bool(rank.get("cuda"))]
        )
    ]
    wrong = [
        f"{rank_named(rank)}: {rank.get('error') or 'no answer' if found is None else 'wrong sum'}"
        for rank, found in bad
    ]
    row = replace(row, facts=facts_of(bad[0][0])) if len(bad) == 1 and len(answers) > 1 else row
    backends = sorted({str(found.get("backend")) for _, found in answers if found})
    on_gpus = {found.get("backend") for rank, found in answers if found and rank.get("gpu_ids")}
    text = f"{', '.join(backends) or 'no backend'}{_reduction_speeds(ranks)}" + (
        f"; {'; '.join(wrong)}" if wrong else ""
    )
    if unseen and not wrong:
        return row.unknown(f"{', '.join(map(rank_named, unseen))}: {unseen[0].get('error') or 'no answer'}")
    return row.judged(bool(ranks) and not wrong and (not real or on_gpus == {"nccl"}), text)


def _reduction_speeds(ranks: Sequence[Answers]) -> str:
    """Over all ranks, inside the nodes, and into which rank the slowest link leads, where one is."""
    found = [(rank, rank.get("collective") or {}) for rank in ranks]
    whole = [it for _, answer in found for it in [number(answer.get("bandwidth_gbps"))] if it is not None]
    inside = [it for _, answer in found for it in [number((answer.get("node") or {}).get("bandwidth_gbps"))] if it]
    links = [(it, rank) for rank, answer in found for it in [number(answer.get("from_previous_gbps"))] if it]
    text = f", slowest rank {min(whole):g} GB/s" if whole else ""
    text += f", inside the slowest node {min(inside):g} GB/s" if inside else ""
    if links:
        slowest, rank = min(links, key=lambda it: it[0])
        if slowest < _NOTICED * max(link for link, _ in links):
            text += f", slowest link {slowest:g} GB/s into {rank_named(rank)}"
    return text


def _object_store(ranks: Sequence[Answers]) -> Check:
    nodes = {rank.get("ray_node_id") for rank in ranks}
    row = Row(
        id="object-store",
        level=4,
        subject="object store",
        expected="each rank reads what was put on another node" if len(nodes) > 1 else "each rank reads what was put",
        next_step="look at the network between the worker pods (object manager ports)",
    )
    wrong = []
    unseen = [rank for rank in ranks if rank.get("object_store") is None and not_asked(rank, "put", "get")]
    for rank in ranks:
        found = rank.get("object_store")
        if rank in unseen:
            continue
        if found is None or not found.get("put_get_ok"):
            wrong.append(f"{rank_named(rank)}: {rank.get('error') or 'no answer' if found is None else 'other bytes'}")
        elif len(nodes) > 1 and found.get("from_node") == rank.get("ray_node_id"):
            wrong.append(f"{rank_named(rank)}: read its own node only")
    if unseen and not wrong:
        return row.unknown(f"{', '.join(map(rank_named, unseen))}: {unseen[0].get('error') or 'no answer'}")
    return row.judged(bool(ranks) and not wrong, "; ".join(wrong) or f"{counted(len(nodes), 'node')}, all right")


def _storage(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    row = Row(
        id="storage-shared",
        level=4,
        subject="storage for checkpoints",
        expected="each rank writes, all read the same place",
        next_step="use a ReadWriteMany claim or an object store, mounted in every worker pod with write permission",
    )
    if spec.storage is None:
        return row.not_applicable("the spec names no storage")
    paths = sorted({str(rank["storage"].get("path")) for rank in ranks if rank.get("storage")})
    bad = [
        rank
        for rank in ranks
        if not (rank.get("storage") and rank["storage"].get("wrote") and rank["storage"].get("read_all"))
    ]
    unseen = [rank for rank in bad if silent(rank) and not {"write", "read_all"} & (rank.get("failed") or {}).keys()]
    # Who could not write is the cause; that the others miss its file follows.
    bad = sorted(
        (rank for rank in bad if rank not in unseen), key=lambda it: bool((it.get("storage") or {}).get("wrote"))
    )
    if unseen and not any(not (rank.get("storage") or {}).get("wrote") for rank in bad):
        return row.unknown(f"{', '.join(map(rank_named, unseen))}: {unseen[0].get('error') or 'no answer'}")
    text = "; ".join(f"{rank_named(rank)}: {_storage_fault(rank)}" for rank in bad) or ", ".join(paths)
    return replace(row, facts=facts_of(bad[0]) if bad else {}).judged(bool(ranks) and not bad, text)


def _storage_fault(rank: Answers) -> str:
    found = rank.get("storage")
    if not found:
        return str(rank.get("error") or "no answer")
    failed = rank.get("failed") or {}
    if not found.get("wrote"):
        return "could not write" + (f": {failed['write']}" if failed.get("write") else "")
    return "does not see what the others wrote"
