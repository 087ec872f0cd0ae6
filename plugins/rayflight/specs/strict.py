"""The base of everything that people write: frozen, unknown fields refused, one sentence for all that is wrong.

May turn pydantic's errors into InvalidSpec; knows no field of any model.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from rayflight.errors import InvalidSpec

_SHOWN = 5  # more than this in one sentence is read by nobody


class Strict(BaseModel):
    """Human input. Built by keyword or by ``parse``; both raise InvalidSpec, never pydantic's own error."""

    # defer_build: a DAG file that only names these classes does not pay for their validators.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, populate_by_name=True, defer_build=True
    )

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise refusal(error, type(self), which=type(self).__name__) from None

    # Tells pydantic that nested models need not go through this method, so that errors keep their full path
    # (pydantic's own subclasses of BaseModel do the same).
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def parse(cls, data: object, *, which: str = "") -> Self:
        """Check plain data (YAML, JSON, XCom); ``which`` names it in the error."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise refusal(error, cls, which=which or cls.__name__) from None

    @classmethod
    def check_names(cls, data: object, *, which: str) -> None:
        """Only whether every field exists: for data of which the values are not known yet."""
        try:
            cls.model_validate(data)
        except ValidationError as error:
            unknown = [it for it in error.errors(include_url=False) if it["type"] == "extra_forbidden"]
            if unknown:
                raise _refused([_text(it, cls) for it in unknown], which) from None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data without what is default; ``parse`` is the inverse."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def replace(self, **changes: Any) -> Self:
        """Return a checked copy with these fields changed."""
        return type(self)(**{**self._given(), **changes})

    def _given(self) -> dict[str, Any]:
        """The fields that were given, not defaulted."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def refusal(error: ValidationError, model: type[BaseModel], *, which: str) -> InvalidSpec:
    """Put everything that pydantic found into one InvalidSpec."""
    return _refused([_text(detail, model) for detail in error.errors(include_url=False)], which)


def _refused(texts: list[str], which: str) -> InvalidSpec:
    shown = texts[:_SHOWN] + ([f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else [])
    return InvalidSpec(
        "Refused",
        which=which,
        why="; ".join(shown),
        next_step="correct this and try again; nothing was created",
    )


def _text(detail: ErrorDetails, model: type[BaseModel]) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown field{_hint(detail, model)}"
    if detail["type"] == "missing":
        return f"{where}: required, but missing"
    message = str(detail.get("ctx", {}).get("error", "")) or detail["msg"]
    return f"{where}: {message}{_value(detail)}" if where else f"{message}{_value(detail)}"


def _value(detail: ErrorDetails) -> str:
    """The value that was refused, where pydantic's sentence does not show it."""
    value = detail["input"]
    own = detail["type"] == "value_error" or isinstance(value, Mapping | list | tuple | BaseModel)
    return "" if own else f", got {value!r}"


def _hint(detail: ErrorDetails, model: type[BaseModel]) -> str:
    """The nearest known name of any field, so that a slip of the pen costs no search."""
    close = difflib.get_close_matches(str(detail["loc"][-1]), sorted(set(_names(model, set()))), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def _names(annotation: Any, seen: set[Any]) -> Iterator[str]:
    """Field names of a model and of the models inside it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation in seen:
            return
        seen.add(annotation)
        for name, field in annotation.model_fields.items():
            yield field.alias or name
            yield from _names(field.annotation, seen)
    else:
        for part in getattr(annotation, "__args__", ()):
            yield from _names(part, seen)
