"""The probe's result as facts: what each rank measured from inside its worker pod. Reads plain data; judges nothing.

The result crossed a job's log: whatever is not of the probe's schema is dropped here, and said in the rank's ``error``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayflight.snapshot.model import Snapshot
from rayflight.snapshot.readiness import map_pods
from rayflight.verification.probe_schema import RANK, SCHEMA, WHOLE, cut

Answers = Mapping[str, Any]

# How the probe begins what it says of a question without an answer (probe/questions.py).
NO_ANSWER, SKIPPED = "did not answer within", "skipped"


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe's result. An answer that is missing is None: a rank that was silent has only its number and place."""

    raw: Answers
    problem: str = ""  # why the whole cannot be read

    @classmethod
    def read(cls, result: object, snapshot: Snapshot | None = None) -> Probed:
        """Keep what the schema knows; where a snapshot is given, each rank also gets its pod and Kubernetes node."""
        if not isinstance(result, Mapping):
            return cls({}, f"the result is no JSON object but {type(result).__name__}")
        schema, ranks = result.get("schema", SCHEMA), result.get("ranks")
        if schema != SCHEMA:
            return cls({}, f"the result has schema {schema!r}, this Rayflight reads {SCHEMA}")
        if not isinstance(ranks, list) or not all(isinstance(rank, Mapping) for rank in ranks):
            return cls({}, "the result has no list of ranks")
        whole, strange = cut({key: result[key] for key in WHOLE if key in result}, WHOLE)
        kept = [_rank(rank) for rank in ranks]
        return cls({**whole, "ranks": _located(kept, snapshot) if snapshot else kept}, "; ".join(strange))

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
    def total_seconds(self) -> float:
        """What the whole probe took."""
        return number((self.raw.get("seconds") or {}).get("total")) or 0.0

    @property
    def after(self) -> Mapping[str, Answers]:
        """What was found on a Ray node (by its id) when the ranks were gone."""
        return {node: found for node, found in (self.raw.get("after") or {}).items() if found}

    def of_pod(self, pod: str, node_id: str = "") -> tuple[Answers, ...]:
        """The ranks that ran in this pod: by its name, or by the Ray node that it is mapped to."""
        return tuple(
            rank for rank in self.ranks if rank.get("pod") == pod or (node_id and rank.get("ray_node_id") == node_id)
        )


def _rank(rank: Answers) -> Answers:
    """The rank's answers without those that are of another kind than the schema says.

    ``failed`` is every question that it could not answer, with why; a rank of an older probe has its ``error`` only.
    """
    kept, strange = cut(rank, RANK)
    error = "; ".join([*([kept["error"]] if kept.get("error") else []), *strange]) or None
    failed = kept.get("failed") or ({"": kept["error"]} if kept.get("error") else {})
    return {**kept, "error": error, "failed": {**failed, **({"schema": "; ".join(strange)} if strange else {})}}


def _located(ranks: Iterable[Answers], snapshot: Snapshot) -> list[Answers]:
    """A silent rank knows only its Ray node: what it ran in stands in the snapshot."""
    mapped = map_pods(snapshot).candidates
    by_node = {node.id: name for name, nodes in mapped.items() for node in nodes}
    pods = {pod.name: pod for pod in snapshot.pods}
    found = []
    for rank in ranks:
        name = rank["pod"] if rank.get("pod") in pods else by_node.get(rank.get("ray_node_id") or "")
        pod = pods.get(name or "")
        found.append({**rank, "pod": pod.name, "node": pod.node} if pod else rank)
    return found


def silent(rank: Answers) -> bool:
    """It never said who it is, or left a question unanswered in time: it was asked nothing more."""
    texts = (rank.get("failed") or {}).values()
    return rank.get("python") is None or any(str(text).startswith(NO_ANSWER) for text in texts)


def not_asked(rank: Answers, *questions: str) -> bool:
    """Whether it had no chance to answer these: it was silent before, or the question was left out."""
    failed = rank.get("failed") or {}
    own = [str(failed[question]) for question in questions if failed.get(question)]
    return all(text.startswith(SKIPPED) for text in own) if own else silent(rank)


def number(value: object) -> float | None:
    """A finite number, or None: NaN and infinity are no measurements."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def devices_of(rank: Answers) -> list[Answers]:
    """Devices that the rank's container sees."""
    return list(rank.get("devices") or ())


def uuids_of(rank: Answers) -> list[str]:
    """UUIDs that a process can be given: MIG instances where the GPU is cut, else the GPU. One without is none."""
    found = [uuid for device in devices_of(rank) for uuid in (device.get("mig") or [device.get("uuid")])]
    return [uuid for uuid in found if isinstance(uuid, str) and uuid]


def gpu_of(rank: Answers) -> str:
    """The UUID of the rank's own GPU, as far as it is known."""
    copied = (rank.get("copy") or {}).get("uuid")
    every = uuids_of(rank)
    own = [uuid for uuid in every if isinstance(copied, str) and uuid.partition("-")[2] == copied]
    ids = [str(given) for given in rank.get("gpu_ids") or ()]
    own = own or [uuid for at, uuid in enumerate(every) if str(at) in ids or uuid in ids]
    return own[0] if len(own) == 1 else ""


def rank_named(rank: Answers) -> str:
    """``rank 0 in pod x on node y``."""
    place = f"pod {rank['pod']}" if rank.get("pod") else f"Ray node {str(rank.get('ray_node_id') or '?')[:8]}"
    return f"rank {rank.get('rank')} in {place}" + (f" on node {rank['node']}" if rank.get("node") else "")


def facts_of(rank: Answers) -> dict[str, Any]:
    """What a row about this rank carries for machines."""
    return {"pod": rank.get("pod"), "node": rank.get("node"), "rank": rank.get("rank"), "gpu": gpu_of(rank)}
