"""One alert as data: everything that a message says, in the order in which it is read. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA = 1  # of ``to_dict``: receivers of the JSON form may rely on it


class Kind(StrEnum):
    """What the message tells."""

    PROBLEM = "problem"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Which task of which run speaks. ``url`` opens it in Airflow; ``task_id`` is empty for a whole DAG run."""

    dag_id: str
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1
    try_number: int = 0
    url: str = ""

    def __str__(self) -> str:
        task = f", task {self.task_id}" if self.task_id else ""
        index = f" [{self.map_index}]" if self.map_index >= 0 else ""
        tried = f", try {self.try_number}" if self.try_number > 1 else ""
        return f"{self.dag_id}, run {self.run_id}{task}{index}{tried}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The place of the fault, as far as it is known."""

    cluster: str = ""
    pod: str = ""
    node: str = ""
    gpus: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (
            f"pod {self.pod}" if self.pod else "",
            f"node {self.node}" if self.node else "",
            *(f"GPU {uuid}" for uuid in self.gpus),
            f"cluster {self.cluster}" if self.cluster else "",
        )
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A place to look at. ``url`` may be an archive URL that only people with access to the store can open."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One message. ``fingerprint`` names the fault; ``count`` is how often it was seen since ``since``."""

    kind: Kind
    title: str
    cause: str
    fingerprint: str
    run: Run
    what: str
    expected: str = ""
    observed: str = ""
    where: Where = field(default_factory=Where)
    since: str = ""
    at: str = ""
    next_step: str = ""
    also: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    count: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: plain data."""
        data = asdict(self)
        data.update(
            schema=SCHEMA,
            kind=str(self.kind),
            also=list(self.also),
            links=[asdict(link) for link in self.links],
            where={**asdict(self.where), "gpus": list(self.where.gpus)},
        )
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Alert:
        """The inverse of ``to_dict``."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        known["kind"] = Kind(known["kind"])
        known["run"] = Run(**known["run"])
        known["where"] = Where(**{**known["where"], "gpus": tuple(known["where"]["gpus"])})
        known["also"] = tuple(known["also"])
        known["links"] = tuple(Link(**link) for link in known["links"])
        return cls(**known)
