"""Spans of time as people write them: ``90s``, ``30m``, ``2h``, ``1d``. Pure, and cheap to import in a DAG file."""

from __future__ import annotations

import re
from datetime import timedelta

_SPAN = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parsed(text: str) -> timedelta:
    """The span that the text stands for. Raises ValueError."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no span of time: write for example 90s, 30m or 2h")
    return timedelta(**{_UNITS[match["unit"]]: float(match["number"])})
