"""Level 4, what the ranks need besides their devices: the head by name, disk, shared memory, clocks, versions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rayflight.findings import Check
from rayflight.verification.probed import Answers, Probed, devices_of, facts_of, number, rank_named
from rayflight.verification.rows import Row, gib

_FULL = 0.95  # Ray's local_fs_capacity_threshold: above it nothing is written any more
_WARN_SKEW, _FAIL_SKEW = 1.0, 300.0  # seconds: logs out of order; object stores refuse signatures (S3 at 15 minutes)
_LEFT_BYTES = 256 * 2**20
_VERSIONS = ("python", "ray", "torch", "torch_cuda")


def surrounding_rows(probed: Probed) -> Iterator[Check]:
    """One row per question, naming every rank for which the answer is wrong."""
    ranks = [rank for rank in probed.ranks if rank.get("python") is not None]
    yield _versions(ranks)
    yield _each("head-reachable", "the head by its name", ranks, "head", _head, "name and GCS port answer in every pod",
                "look at CoreDNS, the pod's DNS policy and the NetworkPolicies of the namespace")  # fmt: skip
    yield _each("disk-room", "disk under Ray's session folder", ranks, "disk", _disk, "less than 95 % used",
                "free the node's disk, or give the pods an ephemeral-storage request or a volume",
                forbids=False)  # fmt: skip
    yield _each("shared-memory-written", "shared memory", ranks, "shared_memory", _written,
                "what is written is read back", "see the pod's /dev/shm: its size, and who fills it")  # fmt: skip
    yield _clocks(ranks)


def _each(
    name: str,
    subject: str,
    ranks: Sequence[Answers],
    key: str,
    judge: Callable[[Answers], tuple[str, str]],
    expected: str,
    next_step: str,
    *,
    forbids: bool = True,
) -> Check:
    """``judge`` gives (what is wrong, what is to be told when nothing is)."""
    seen = [(rank, *judge(rank[key])) for rank in ranks if rank.get(key)]
    wrong = [(rank, fault) for rank, fault, _ in seen if fault]
    facts = facts_of(wrong[0][0]) if wrong else {}
    row = Row(id=name, level=4, subject=subject, expected=expected, next_step=next_step, facts=facts)
    if wrong:
        text = "; ".join(f"{rank_named(rank)}: {fault}" for rank, fault in wrong)
        return row.failed(text) if forbids else row.warned(text)
    silent = [rank_named(rank) for rank in ranks if not rank.get(key)]
    if silent or not seen:
        return row.unknown(f"not told by {', '.join(silent) or 'any rank'}")
    return row.passed(", ".join(dict.fromkeys(told for _, _, told in seen)))


def _head(found: Answers) -> tuple[str, str]:
    reached = found.get("reached") or {}
    closed = [f"{name}: {why}" for name, why in reached.items() if name != "gcs" and why]
    if found.get("error") or not found.get("addresses"):
        return str(found.get("error") or f"{found.get('name')} has no address"), ""
    if reached.get("gcs"):
        return f"GCS at {found.get('name')}: {reached['gcs']}", ""
    return "", f"{found.get('name')}" + (f" (not reached: {'; '.join(closed)})" if closed else "")


def _disk(found: Answers) -> tuple[str, str]:
    total, free = number(found.get("total_bytes")), number(found.get("free_bytes"))
    if not total or free is None:
        return str(found.get("error") or "no size"), ""
    fault = f"{gib(free)} free of {gib(total)}: {1 - free / total:.0%} used" if 1 - free / total > _FULL else ""
    return fault, f"{gib(free)} free"


def _written(found: Answers) -> tuple[str, str]:
    if not found.get("ok"):
        return str(found.get("error") or "no reason given"), ""
    speed = number(found.get("gbps"))
    return "", f"{gib(number(found.get('wrote_bytes')) or 0.0)} written" + (f" at {speed:g} GB/s" if speed else "")


def _clocks(ranks: Sequence[Answers]) -> Check:
    offsets = [
        (abs(offset) - (number((rank["clock"] or {}).get("error_seconds")) or 0.0), offset, rank)
        for rank in ranks
        for offset in [number((rank.get("clock") or {}).get("offset_seconds"))]
        if offset is not None
    ]
    worst = max(offsets, key=lambda found: found[0], default=None)
    row = Row(
        id="clocks-agree",
        level=4,
        subject="clocks of the nodes",
        expected=f"within {_WARN_SKEW:g} s of the head's",
        next_step="start time synchronisation (chrony) on that node",
        facts=facts_of(worst[2]) if worst and worst[0] > _WARN_SKEW else {},
    )
    if worst is None or len(offsets) < len(ranks):
        return row.unknown("not every rank told its time")
    text = f"{rank_named(worst[2])} is {worst[1]:+.3f} s from the head"
    if worst[0] <= _WARN_SKEW:
        return row.passed(f"at most {max(0.0, worst[0]):.3f} s apart")
    return row.failed(text) if worst[0] > _FAIL_SKEW else row.warned(text)


def _versions(ranks: Sequence[Answers]) -> Check:
    """Ray itself refuses other Python and Ray versions at times; a mixed torch fails late and strangely."""
    kinds: dict[tuple[str, ...], list[Answers]] = {}
    for rank in ranks:
        kinds.setdefault(tuple(str(rank.get(name) or "none") for name in _VERSIONS), []).append(rank)
    row = Row(
        id="versions-alike",
        level=4,
        subject="software of the ranks",
        expected="one version each of Python, Ray, torch and torch's CUDA",
        next_step="use one image for all worker groups",
    )
    texts = {key: ", ".join(f"{name} {it}" for name, it in zip(_VERSIONS, key, strict=True)) for key in kinds}
    if not kinds:
        return row.unknown("no rank told its versions")
    if len(kinds) == 1:
        return row.passed(next(iter(texts.values())))
    return row.failed("; ".join(f"{texts[key]}: {', '.join(map(rank_named, who))}" for key, who in kinds.items()))


def left_row(probed: Probed) -> Check:
    """The probe's processes are gone and the GPUs' memory is as it was."""
    held: list[str] = []
    less: list[str] = []
    blamed: dict[str, Any] = {}
    for node, found in probed.after.items():
        there = [rank for rank in probed.ranks if rank.get("ray_node_id") == node]
        if not there:
            continue
        place = f"pod {there[0].get('pod')} on node {there[0].get('node') or there[0].get('node_ip')}"
        held += [f"{place}: {text}: drain the node" for text in found.get("held") or ()]
        less += [f"{place}: {text}" for text in _less(there[0], found.get("memory_free") or {})]
        blamed = blamed or (facts_of(there[0]) if held or less else {})
    unseen = [f"{node[:8]}: {found['error']}" for node, found in probed.after.items() if found.get("error")]
    row = Row(
        id="probe-left-nothing",
        level=4,
        subject="what the probe leaves behind",
        expected="no process, and as much free GPU memory as before",
        next_step="drain the node: its driver holds on to a process that was killed",
        facts=blamed,
    )
    if held:
        return row.failed("; ".join([*held, *less]))
    if less:
        return row.warned("; ".join(less))
    if unseen:
        return row.unknown("; ".join(unseen))
    return row.passed("nothing") if probed.after else row.not_applicable("no rank was silent, and no driver counts")


def _less(rank: Answers, free: Mapping[str, object]) -> Iterator[str]:
    for device in devices_of(rank):
        before = number((device.get("memory") or {}).get("free_bytes"))
        after = number(free.get(str(device.get("uuid"))))
        if before is not None and after is not None and before - after > _LEFT_BYTES:
            yield f"{device.get('uuid')} has {gib(before - after)} less free memory than before"
