"""One form for every time: RFC 3339, UTC, milliseconds, so that times sort as text. Pure: reads no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_PLAIN = 20  # characters of 2026-12-01T06:41:57Z


def instant(text: str | None) -> str | None:
    """A Kubernetes or Python time in the one form; None stays None.

    >>> instant("2026-12-01T06:41:57Z"), instant("2026-12-01T07:41:57.755944+01:00")
    ('2026-12-01T06:41:57.000Z', '2026-12-01T06:41:57.755Z')
    """
    if text and len(text) == _PLAIN and text[10] == "T" and text[19] == "Z":  # Kubernetes' own form: no need to parse
        return f"{text[:19]}.000Z"
    return _form(datetime.fromisoformat(text)) if text else None


def from_milliseconds(milliseconds: float | str | None) -> str | None:
    """A Ray time (milliseconds since 1970; 0 means: none) in the one form.

    >>> from_milliseconds(1796107337810)
    '2026-12-01T06:42:17.810Z'
    """
    value = float(milliseconds or 0)
    return _form(datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=value)) if value > 0 else None


def seconds_between(earlier: str | None, later: str | None) -> float | None:
    """Seconds from one time to the other; None when either is missing."""
    if not earlier or not later:
        return None
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def earlier(text: str | None, seconds: float) -> str | None:
    """The time so many seconds before; None stays None."""
    return _form(datetime.fromisoformat(text) - timedelta(seconds=seconds)) if text else None


def _form(moment: datetime) -> str:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
