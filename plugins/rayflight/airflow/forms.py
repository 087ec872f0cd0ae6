"""Reads what templates and trigger forms hand over: rendered values are text, empty fields mean "not given".

Pure. Raises InvalidSpec in one sentence; what the models of ``specs`` check is left to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rayflight import spans
from rayflight.errors import InvalidSpec

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_ON_FAIL = ("fail", "warn", "replace")
_NUMBERS = ("replicas", "gpus")
_CHANGES = (*_NUMBERS, "image", "group")
_NOT_GIVEN = (None, "", "None")  # a template renders None as the word


def truth(value: object, *, field: str) -> bool:
    """Whether it is wanted. A word that means neither is refused: a slip of the pen must not switch a check off."""
    word = str(value).strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise _refused(field, f"{value!r} is neither true nor false", "write true or false")


def on_fail(value: object) -> str:
    """What a failed verification leads to; empty where the shape says it."""
    if value in _NOT_GIVEN:
        return ""
    if value not in _ON_FAIL:
        raise _refused("on_fail", f"{value!r} is none of {', '.join(_ON_FAIL)}", f"write {' or '.join(_ON_FAIL)}")
    return str(value)


def count(value: object, *, field: str) -> int | None:
    """A whole number from 1, or None where nothing is given."""
    if value in _NOT_GIVEN:
        return None
    number = whole(value, field=field)
    if number < 1:
        raise _refused(field, f"{number} is not at least 1", "give a whole number from 1, or leave it out")
    return number


def span(value: object, *, field: str) -> timedelta:
    """A span above zero: a timedelta, seconds, or text like ``30m``."""
    try:
        if isinstance(value, bool):
            raise ValueError(f"{value!r} is no span of time: write for example 90s, 30m or 2h")
        found = value if isinstance(value, timedelta) else _seconds(value)
    except ValueError as error:
        raise _refused(field, str(error), "write for example 30m, or give a timedelta") from None
    if found <= timedelta(0):
        raise _refused(field, f"{value!r} is not above zero", "write for example 30m, or give a timedelta")
    return found


def _seconds(value: object) -> timedelta:
    return timedelta(seconds=value) if isinstance(value, int | float) else spans.parsed(str(value))


def whole(value: object, *, field: str) -> int:
    """A whole number, also as text."""
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return int(str(value))
    except ValueError:
        raise _refused(field, f"{value!r} is not a whole number", "give a whole number") from None


def changes(resize: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a form changes of a shape, as ``specs.resized`` takes it."""
    if resize is not None and not isinstance(resize, Mapping):
        raise _refused("resize", f"it is {resize!r}, not a mapping", f"give {', '.join(_CHANGES)}")
    for key in resize or {}:
        if key not in _CHANGES:
            raise _refused(f"resize.{key}", "there is no such field", f"the fields are {', '.join(_CHANGES)}")
    given = {key: value for key, value in (resize or {}).items() if value not in _NOT_GIVEN}
    return {key: whole(value, field=f"resize.{key}") if key in _NUMBERS else value for key, value in given.items()}


def job(data: object) -> dict[str, Any]:
    """A job's fields. A form gives storage as the name of a claim or a URL, or leaves it empty."""
    if not isinstance(data, Mapping):
        raise _refused("job", f"it is {data!r}, not a mapping", "give a JobSpec, or a dict of its fields")
    fields = dict(data)
    storage = fields.get("storage")
    if isinstance(storage, str):
        kind = "url" if "://" in storage else "claim"
        fields["storage"] = None if storage in _NOT_GIVEN else {kind: storage}
    return fields


def _refused(field: str, why: str, next_step: str) -> InvalidSpec:
    return InvalidSpec("Refused", which=field, why=why, next_step=f"{next_step}; nothing was created")
