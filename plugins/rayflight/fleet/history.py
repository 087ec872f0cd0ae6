"""What documents of many verifications say of each GPU: how often it failed, what became slower. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rayflight.states import Verdict

LAST = 20  # verifications that are looked at
_NOTED = 10.0  # per cent: below it, clocks and neighbours explain a difference
_GPUS = 10  # of one product that are remembered at most, times the verifications of each
_ENOUGH = 3  # earlier figures that make a comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One GPU (or, without a UUID, one node) over its last verifications. ``changes`` are per cent by figure."""

    uuid: str
    node: str
    name: str = ""
    seen: int = 0
    failed: int = 0
    last_failed_at: str | None = None
    checks: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, float] = field(default_factory=dict)
    simulated: bool = False

    @property
    def worrying(self) -> bool:
        """Failed at least once, or slower than it was."""
        return self.failed > 0 or any(change < 0 for change in self.changes.values())

    def sentence(self) -> str:
        """``GPU-1 on node gpu-1 failed 3 of the last 20 (compute 3 times); copy.to_device_gbps fell by 18 %``."""
        kind = "SIMULATED " if self.simulated else ""
        who = f"{kind}{self.uuid or 'node'} on node {self.node}" if self.uuid else f"{kind}node {self.node}"
        named = ", ".join(f"{check} {_times(count)}" for check, count in self.checks.items())
        parts = [f"failed {self.failed} of the last {self.seen}" + (f" ({named})" if named else "")]
        for figure, change in self.changes.items():
            parts.append(f"{figure} {'fell' if change < 0 else 'rose'} by {abs(change):.0f} %")
        return f"{who} {'; '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {**asdict(self), "checks": dict(self.checks), "changes": dict(self.changes), "says": self.sentence()}


def history(documents: Iterable[Mapping[str, Any]], *, last: int = LAST) -> tuple[Health, ...]:
    """Every GPU, those that worry first. A node that showed no GPU stands for itself."""
    seen: dict[tuple[str, str], list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for document in sorted(documents, key=lambda it: str(it["at"])):
        for gpu in document["gpus"] or ({"uuid": "", "verdict": document["verdict"], "failed": document["failed"]},):
            key = (str(gpu["uuid"]), "" if gpu["uuid"] else str(document["node"]))
            seen.setdefault(key, []).append((document, gpu))
    healths = [_health(uuid, entries[-last:]) for (uuid, _), entries in seen.items()]
    return tuple(sorted(healths, key=lambda it: (not it.worrying, -it.failed, it.node, it.uuid)))


def standing(documents: Iterable[Mapping[str, Any]], *, shape: str = "", since: str = "") -> dict[str, tuple[str, str]]:
    """Kubernetes node → (verdict, when) of its newest verification, of this shape and since then where given."""
    found: dict[str, tuple[str, str]] = {}
    for document in sorted(documents, key=lambda it: str(it["at"])):
        if shape in ("", document["shape"]) and str(document["at"]) >= since:
            found[str(document["node"])] = (str(document["verdict"]), str(document["at"]))
    return found


def earlier(
    documents: Iterable[Mapping[str, Any]], *, last: int = LAST
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """What passed before, as measures to compare with: ``gpus`` by UUID and ``products`` by name, figure → values.

    A GPU that failed is no measure, and neither is a simulated one.
    """
    found: dict[str, dict[str, dict[str, list[float]]]] = {"gpus": {}, "products": {}}
    for document in sorted(documents, key=lambda it: str(it["at"])):
        for gpu in () if document.get("simulated") else document["gpus"]:
            if gpu["verdict"] != Verdict.PASSED:
                continue
            for kind, key in (("gpus", gpu["uuid"]), ("products", gpu.get("name"))):
                for name, value in (gpu.get("figures") or {}).items() if key else ():
                    values = found[kind].setdefault(str(key), {}).setdefault(name, [])
                    values.append(float(value))
                    del values[: -last if kind == "gpus" else -last * _GPUS]
    return found


def _health(uuid: str, entries: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Health:
    newest, gpu = entries[-1]  # a card that moved is told of by its newest place
    bad = [(document, item) for document, item in entries if item["verdict"] == Verdict.FAILED]
    return Health(
        uuid=uuid,
        node=str(newest["node"]),
        name=str(gpu.get("name") or ""),
        seen=len(entries),
        failed=len(bad),
        last_failed_at=str(bad[-1][0]["at"]) if bad else None,
        checks=dict(Counter(check for _, item in bad for check in item["failed"]).most_common()),
        changes=_changes([item.get("figures") or {} for _, item in entries]),
        simulated=bool(newest.get("simulated")),
    )


def _changes(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The newest figure against the median of the earlier ones."""
    found = {}
    for name, value in figures[-1].items():
        before = [item[name] for item in figures[:-1] if item.get(name)]
        if len(before) >= _ENOUGH:
            change = (value / median(before) - 1.0) * 100.0
            if abs(change) >= _NOTED:
                found[name] = round(change, 1)
    return found


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
