"""Quantities, durations and names as people write them: checked text with its unit. Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from rayflight import spans

_QUANTITY = re.compile(r"(?P<number>\d+(\.\d+)?|\.\d+)(?P<suffix>[numkMGTPE]|[KMGTPE]i)?")
_FACTORS = {
    "": Decimal(1),
    **{
        s: Decimal(10) ** e
        for s, e in {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}.items()
    },
    **{f"{s}i": Decimal(1024) ** (e + 1) for e, s in enumerate("KMGTPE")},
}
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LEAST_MEMORY = 64 * 1024**2  # "memory: 4" means four bytes: nobody wants that


def amount(quantity: str) -> Decimal:
    """Return the number that a Kubernetes quantity stands for: ``amount("500m") == Decimal("0.5")``."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        raise ValueError(f"{quantity!r} is not a Kubernetes quantity: write for example 500m, 2, 512Mi or 4Gi")
    return Decimal(match["number"]) * _FACTORS[match["suffix"] or ""]


def in_bytes(quantity: str) -> int:
    """Return the bytes of a memory quantity."""
    return int(amount(quantity))


def gib(size: int) -> str:
    """Bytes for people: ``1.5 GiB``."""
    return f"{size / 1024**3:.3g} GiB"


def as_text(value: Any) -> Any:
    """Let a bare YAML number stand for its digits; a boolean is no text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _quantity(value: str) -> str:
    if amount(value) <= 0:
        raise ValueError(f"{value!r} must be above zero")
    return value


def _memory(value: str) -> str:
    if in_bytes(_quantity(value)) < _LEAST_MEMORY:
        raise ValueError(f"{value!r} is less than 64Mi: memory without a unit means bytes, write for example {value}Gi")
    return value


def _duration(value: Any) -> Any:
    """Let ``90s``, ``30m``, ``2h`` and ``1d`` stand for a timedelta; leave the rest to pydantic."""
    if not isinstance(value, str) or value.startswith("P"):  # ISO 8601, as in Airflow's forms
        return value
    return spans.parsed(value)


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError(f"{value} must be above zero: write for example 90s, 30m or 2h")
    return value


def dns_label(value: str, *, longest: int = 63) -> str:
    """Check a name that Kubernetes takes as a DNS-1035 label."""
    if len(value) > longest:
        raise ValueError(f"{value!r} has {len(value)} characters, at most {longest} are allowed")
    if not _DNS_LABEL.fullmatch(value):
        raise ValueError(f"{value!r} must start with a letter and hold only a-z, 0-9 and '-', not at the end")
    return value


Cpu = Annotated[str, BeforeValidator(as_text), AfterValidator(_quantity)]
"""CPUs as a Kubernetes quantity: ``2``, ``500m``."""

Memory = Annotated[str, BeforeValidator(as_text), AfterValidator(_memory)]
"""Memory as a Kubernetes quantity: ``4Gi``."""

Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    AfterValidator(_positive),
    PlainSerializer(timedelta.total_seconds, when_used="json"),
]
"""A span above zero: a timedelta, seconds, ``30m``, ``2h``, ``1d``."""

Name = Annotated[str, AfterValidator(dns_label)]
"""A DNS-1035 label."""
