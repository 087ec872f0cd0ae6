"""The table of drills, read and checked. Pure but for reading its one file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import field_validator

from dev.airflow_home import ROOT
from rayflight.specs.strict import Strict

FILE = ROOT / "include" / "drills" / "drills.yaml"
Action = tuple[str, ...]


class Drill(Strict):
    """One failure path: what is spoilt, how it shows, and what Rayflight must say of it. See docs/drills.md."""

    name: str
    shape: dict[str, Any] = {}  # changes of the shape; ``group`` stands for its one worker group
    job: dict[str, Any] | None = None  # None: work.py
    conn_id: str = "kubernetes_default"
    before: tuple[Action, ...] = ()  # done to the drill's namespace before take-off
    provoke: tuple[Action, ...] = ()
    when: Literal["take-off", "training"] = "training"  # when ``provoke`` is done
    sign: str = ""
    cause: tuple[str, ...] = ()  # accepted ids of findings, or names of errors; empty: nothing may fail
    says: str = ""  # what the message must hold, too
    decision: Literal["fail", "retry_after", "retry_elsewhere", "wait"] | None = None
    proof: str = ""  # of a drill that must end well: what else must be true
    shares: str = ""  # drills with the same word fly on one cluster
    alone: bool = False  # disturbs whatever flies beside it
    quick: bool = False  # in the subset for every change
    needs: Literal["", "kueue"] = ""  # what the testbed must have
    seconds: float = 300.0  # for all of it; a busy machine is slow

    @field_validator("sign")
    @classmethod
    def _compiles(cls, sign: str) -> str:
        re.compile(sign)
        return sign

    @property
    def by_itself(self) -> bool:
        """Whether a namespace of a real cluster is enough: nothing is done to nodes or components."""
        return not self.before and {action[0] for action in self.provoke} <= {"delete-pod", "evict", "scale"}

    @property
    def retried(self) -> bool:
        """Whether Airflow has to retry it."""
        return self.decision in ("retry_after", "retry_elsewhere")


def read(file: Path = FILE) -> list[Drill]:
    """All drills, in the order of the file."""
    entries: Mapping[str, Mapping[str, Any]] = yaml.safe_load(file.read_text())
    return [Drill.parse({"name": name, **entry}, which=f"drill {name}") for name, entry in entries.items()]


def flights(drills: Sequence[Drill]) -> list[list[Drill]]:
    """Who flies with whom: drills that share a cluster together, each other one by itself."""
    found: dict[str, list[Drill]] = {}
    for drill in drills:
        found.setdefault(f"with {drill.shares}" if drill.shares else drill.name, []).append(drill)
    return list(found.values())
