"""A Kubernetes condition: what almost every object says about itself. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Strings = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A Kubernetes condition of any object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str | None = None
