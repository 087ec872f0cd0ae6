"""Level 3, the devices themselves: what the driver says of each, and whether torch fits it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rayflight.findings import Check
from rayflight.snapshot import capacity
from rayflight.snapshot.model import Snapshot
from rayflight.specs import ClusterSpec, WorkerGroup
from rayflight.verification.probed import Answers, Probed, devices_of, facts_of, number, rank_named
from rayflight.verification.rows import Row, gib

_PRODUCT_LABEL = "nvidia.com/gpu.product"  # GPU Feature Discovery
_HELD = 0.03  # drivers reserve a part of the memory for themselves
_HELD_BYTES = 2**30
_SIMULATED = "SIMULATED: there is no driver to ask"
_NO_LIBRARY = "the container has no libnvidia-ml.so.1 (NVIDIA_DRIVER_CAPABILITIES without utility?)"

# What a person does about NVML's refusals; the rest is shown as NVML says it.
_REMEDIES = {
    "GPU_IS_LOST": "drain the node and reset it: the GPU fell off the bus (see Xid errors in its kernel log)",
    "LIB_RM_VERSION_MISMATCH": "drain and reboot the node: its driver was updated while it was in use",
    "RESET_REQUIRED": "drain the node and reset the GPU",
    "DRIVER_NOT_LOADED": "load the NVIDIA driver on the node (see the GPU operator's driver pod)",
    "NO_PERMISSION": "let the container open the device (device plugin, cgroup device rules)",
    "UNKNOWN": "restart the pod: a container loses its GPUs when systemd reloads its cgroup (Unknown Error)",
    "did not answer": "drain the node: its driver hangs",
}


def device_rows(spec: ClusterSpec, snapshot: Snapshot, probed: Probed) -> Iterator[Check]:
    """Rows over the GPUs of all worker pods; the first rank of a pod speaks for its container."""
    for group in spec.groups:
        if group.gpus:
            yield _product(spec, group, snapshot, probed)
    pods = [pod for pod in snapshot.workers() if capacity.gpus(capacity.limits(pod))]
    firsts = [ranks[0] for pod in pods for ranks in [_of(probed, pod.name)] if ranks]
    if not firsts:
        return
    for rank in firsts:
        yield _driver(spec, rank)
    yield _memory_errors(spec, firsts)
    yield _throttled(spec, firsts)
    yield _links(spec, firsts)
    yield _memory_held(spec, firsts)
    yield _fits(spec, [rank for rank in probed.ranks if rank.get("gpu_ids")])


def _of(probed: Probed, pod: str) -> tuple[Answers, ...]:
    return tuple(rank for rank in probed.of_pod(pod) if rank.get("python") is not None)


def simulated(spec: ClusterSpec, ranks: Sequence[Answers]) -> bool:
    """The spec says so, and every rank does."""
    return spec.simulated and all(rank.get("simulated") for rank in ranks)


def _driver(spec: ClusterSpec, rank: Answers) -> Check:
    found = rank.get("nvml") or {}
    said = str(found.get("error") or "")
    row = Row(
        id="gpu-driver",
        level=3,
        subject=f"NVIDIA driver in pod {rank.get('pod')}" + (f" on node {rank['node']}" if rank.get("node") else ""),
        expected="answers every question about every device",
        next_step=next((step for sign, step in _REMEDIES.items() if sign in said), "look at the node's kernel log"),
        facts={"pod": rank.get("pod"), "node": rank.get("node")},
    )
    if simulated(spec, [rank]):
        return row.not_applicable(_SIMULATED)
    if found.get("ok") is None:
        return row.unknown(said or _NO_LIBRARY)
    text = f"driver {found.get('driver')}, CUDA {found.get('cuda')}, devices {len(devices_of(rank))}"
    refused = "; ".join(f"{name}: {why}" for it in devices_of(rank) for name, why in (it.get("refused") or {}).items())
    return row.judged(bool(found["ok"]), text if found["ok"] else said or "it did not answer", evidence=refused)


def _over(row: Row, spec: ClusterSpec, ranks: Sequence[Answers], asked: str) -> Check | None:
    """The row where nothing can be judged: simulated, nobody has the fact, or the driver keeps it."""
    if simulated(spec, ranks):
        return row.not_applicable(_SIMULATED)
    every = [device for rank in ranks for device in devices_of(rank)]
    if any(device.get(asked) is not None for device in every):
        return None
    refused = [str((device.get("refused") or device.get("faults") or {}).get(asked) or "") for device in every]
    if any(refused):
        return row.unknown("; ".join(sorted({text for text in refused if text})))
    if any((rank.get("nvml") or {}).get("ok") is not None for rank in ranks):
        return row.not_applicable("these devices have no such thing")
    return row.unknown("NVML gave no device")


def _named(rank: Answers, device: Answers) -> str:
    where = f"pod {rank.get('pod')}" + (f" on node {rank['node']}" if rank.get("node") else "")
    return f"{device.get('uuid') or 'a device'} in {where}"


def _devices(ranks: Sequence[Answers]) -> Iterator[tuple[Answers, Answers]]:
    for rank in ranks:
        for device in devices_of(rank):
            yield rank, device


def _blamed(bad: Sequence[tuple[Answers, str]]) -> dict[str, object]:
    return {"pod": bad[0][0].get("pod"), "node": bad[0][0].get("node")} if bad else {}


def _memory_errors(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    bad = []
    for rank, device in _devices(ranks):
        ecc, rows = device.get("ecc") or {}, device.get("remapped_rows") or {}
        signs = [
            f"{ecc['volatile_uncorrected']} uncorrected ECC errors since the driver's start"
            if ecc.get("volatile_uncorrected")
            else "",
            "a row remapping is pending (reset the GPU)" if rows.get("pending") else "",
            "a row remapping failed (replace the GPU)" if rows.get("failure") else "",
        ]
        if any(signs):
            bad.append((rank, f"{_named(rank, device)}: {', '.join(sign for sign in signs if sign)}"))
    row = Row(
        id="gpu-memory-errors",
        level=3,
        subject="memory of the GPUs",
        expected="no uncorrected ECC error, no row waiting to be remapped",
        next_step="drain the node, reset the GPU; replace it when errors come back",
        facts=_blamed(bad),
    )
    return _over(row, spec, ranks, "ecc") or row.judged(not bad, "; ".join(text for _, text in bad) or "none")


def _throttled(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    bad = [
        (rank, f"{_named(rank, device)}: {', '.join(slow)} at {device.get('temperature_c')} °C")
        for rank, device in _devices(ranks)
        for slow in [[it for it in device.get("throttled_by") or () if it != "power cap"]]
        if slow
    ]
    row = Row(
        id="gpu-throttled",
        level=3,
        subject="clocks of the GPUs",
        expected="not slowed down by heat or power",
        next_step="look at the node's cooling and power supply",
        facts=_blamed(bad),
    )
    text = "; ".join(text for _, text in bad)
    return _over(row, spec, ranks, "throttled_by") or (row.warned(text) if bad else row.passed("not slowed down"))


def _links(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    bad = []
    for rank, device in _devices(ranks):
        nvlink, pcie = device.get("nvlink") or {}, device.get("pcie") or {}
        if nvlink.get("down"):
            bad.append((rank, f"{_named(rank, device)}: {nvlink['down']} NVLinks down, {nvlink.get('up')} up"))
        width, most = number(pcie.get("width")), number(pcie.get("width_max"))
        if width and most and width < most:
            bad.append((rank, f"{_named(rank, device)}: PCIe x{width:g} of x{most:g}"))
    row = Row(
        id="gpu-links",
        level=3,
        subject="links of the GPUs",
        expected="every NVLink up, PCIe at full width",
        next_step="drain the node and look at the GPU's seat, NVLink bridge or fabric manager",
        facts=_blamed(bad),
    )
    text = "; ".join(text for _, text in bad)
    return _over(row, spec, ranks, "pcie") or (row.warned(text) if bad else row.passed("all up, full width"))


def _memory_held(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    bad = []
    for rank, device in _devices(ranks):
        memory = device.get("memory") or {}
        total, free = number(memory.get("total_bytes")), number(memory.get("free_bytes"))
        if total is None or free is None or total - free <= max(_HELD_BYTES, _HELD * total):
            continue
        pids = ", ".join(str(it.get("pid")) for it in device.get("processes") or ()) or "none that is visible"
        bad.append((rank, f"{_named(rank, device)}: {gib(total - free)} of {gib(total)} held, processes: {pids}"))
    row = Row(
        id="gpu-memory-free",
        level=3,
        subject="memory of the GPUs before the run",
        expected="free, but for what the driver keeps",
        next_step="find who holds it: a process that an earlier job left, or another container on the same GPU",
        facts=_blamed(bad),
    )
    text = "; ".join(text for _, text in bad)
    return _over(row, spec, ranks, "memory") or (row.warned(text) if bad else row.passed("free"))


def _product(spec: ClusterSpec, group: WorkerGroup, snapshot: Snapshot, probed: Probed) -> Check:
    """What the node selector asks for is what the device itself says that it is."""
    asked = spec.node_selector_of(group).get(_PRODUCT_LABEL, "")
    row = Row(
        id="gpu-product",
        level=3,
        subject=f"GPUs of group {group.name}",
        expected=asked or "any product",
        next_step="the node's label does not tell the truth: see GPU Feature Discovery on that node",
    )
    if not asked:
        return row.not_applicable(f"the group selects no {_PRODUCT_LABEL}")
    names = [
        (rank, str(device.get("name") or "unnamed"))
        for pod in snapshot.workers(group.name)
        for rank in _of(probed, pod.name)[:1]
        for device in devices_of(rank)
    ]
    if not names:
        return row.unknown("no rank listed a device")
    # GPU Feature Discovery writes blanks as dashes, and adds -SHARED or -MIG-... to what is cut or shared.
    wrong = [(rank, name) for rank, name in names if not asked.startswith(name.replace(" ", "-"))]
    row = replace(row, facts=facts_of(wrong[0][0])) if wrong else row
    return row.judged(not wrong, "; ".join(f"{name} in {rank_named(rank)}" for rank, name in wrong) or names[0][1])


def _fits(spec: ClusterSpec, ranks: Sequence[Answers]) -> Check:
    """A torch for a newer CUDA than the driver's, or without code for this device, fails only when it computes."""
    wrong = [(rank, why) for rank in ranks for why in [_misfit(rank)] if why]
    row = Row(
        id="cuda-fits",
        level=3,
        subject="torch, driver and device",
        expected="torch's CUDA is no newer than the driver's, and has code for the device",
        next_step="use an image whose torch is built for this driver and GPU",
        facts=facts_of(wrong[0][0]) if wrong else {},
    )
    if not ranks or simulated(spec, ranks):
        return row.not_applicable(_SIMULATED if ranks else "no rank has a GPU")
    with_torch = [rank for rank in ranks if rank.get("torch")]
    if not with_torch:
        return row.unknown("torch is not installed in the image")
    seen = sorted({f"torch {rank['torch']} for CUDA {rank.get('torch_cuda') or 'none'}" for rank in with_torch})
    return row.judged(not wrong, "; ".join(f"{rank_named(rank)}: {why}" for rank, why in wrong) or ", ".join(seen))


def _misfit(rank: Answers) -> str:
    if not rank.get("torch"):
        return ""
    built, driver = rank.get("torch_cuda"), (rank.get("nvml") or {}).get("cuda")
    if not built:
        return f"torch {rank['torch']} is built without CUDA"
    if driver and _major(str(built)) > _major(str(driver)):
        return f"torch is built for CUDA {built}, the driver offers {driver}"
    capability, archs = (rank.get("copy") or {}).get("capability"), rank.get("torch_archs")
    if capability and archs and not any(_runs(str(arch), str(capability)) for arch in archs):
        return f"torch has code for {', '.join(map(str, archs))}, the device has compute capability {capability}"
    return ""


def _major(version: str) -> int:
    digits = version.partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _runs(arch: str, capability: str) -> bool:
    """``sm_86`` runs on 8.6 and later of the same major; ``compute_80`` is compiled for anything from 8.0 on."""
    kind, _, digits = arch.rstrip("af").partition("_")
    have = tuple(int(part) for part in capability.split(".") if part.isdigit())
    if not digits.isdigit() or len(have) != 2:
        return True  # of a form that is not known: nothing is claimed
    need = (int(digits[:-1]), int(digits[-1]))
    return have >= need and (kind == "compute" or have[0] == need[0])
