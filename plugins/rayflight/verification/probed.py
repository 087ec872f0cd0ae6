"""The probe's result as facts: what each rank measured from inside its worker pod. Reads plain data; judges nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Answers = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe's result. An answer that is missing is None: a rank that was silent has only its number and place."""

    raw: Answers

    @property
    def ranks(self) -> Sequence[Answers]:
        """One mapping per rank, in order."""
        found: Sequence[Answers] = self.raw.get("ranks") or ()
        return found

    @property
    def placement_error(self) -> str:
        """Why the ranks could not be seated; empty when they were."""
        placement = self.raw.get("placement") or {}
        return "" if placement.get("ok", True) else str(placement.get("error") or "no reason given")

    @property
    def seconds(self) -> Mapping[str, float]:
        """What each step took."""
        found: Mapping[str, float] = self.raw.get("seconds") or {}
        return found

    def of_pod(self, pod: str, node_id: str = "") -> tuple[Answers, ...]:
        """The ranks that ran in this pod: by its name, or by the Ray node that it is mapped to."""
        return tuple(
            rank for rank in self.ranks if rank.get("pod") == pod or (node_id and rank.get("ray_node_id") == node_id)
        )


def devices_of(rank: Answers) -> list[Answers]:
    """Devices that the rank's container sees."""
    return list(rank.get("devices") or ())


def uuids_of(rank: Answers) -> list[str]:
    """UUIDs that a process can be given: MIG instances where the GPU is cut, else the GPU."""
    return [uuid for device in devices_of(rank) for uuid in (device.get("mig") or [device.get("uuid") or ""])]


def rank_named(rank: Answers) -> str:
    """``rank 0 in pod x``."""
    place = f"pod {rank['pod']}" if rank.get("pod") else f"Ray node {str(rank.get('ray_node_id') or '?')[:8]}"
    return f"rank {rank.get('rank')} in {place}"
