"""docs/shapes.md says what the models say: every field of every model, with its default."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rayflight import specs
from rayflight.specs import ClusterSpec
from tests.unit.docs.documents import blocks, tables

TABLES = tables("shapes.md")


def models(start: Any, seen: dict[str, type[BaseModel]]) -> dict[str, type[BaseModel]]:
    """The model and all that stand inside it."""
    if isinstance(start, type) and issubclass(start, BaseModel) and start.__name__ not in seen:
        seen[start.__name__] = start
        for field in start.model_fields.values():
            models(field.annotation, seen)
    for part in getattr(start, "__args__", ()):
        models(part, seen)
    return seen


MODELS = models(specs.ClusterSpec, models(specs.JobSpec, models(specs.TeardownPolicy, {})))


def shown(field: FieldInfo) -> str:
    """A default as the tables write it."""
    default = field.get_default(call_default_factory=True)
    if field.is_required() or default is PydanticUndefined:
        return "required"
    if isinstance(default, BaseModel):
        return "defaults"
    if default is None:
        return "none"
    if default in ({}, ()):
        return "empty"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_every_model_has_a_table_and_every_table_a_model():
    assert set(TABLES) == set(MODELS)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_table_of_a_model_has_its_fields_with_their_defaults(name: str):
    fields = {field.alias or key: shown(field) for key, field in MODELS[name].model_fields.items()}
    assert {key: cells[0] for key, cells in TABLES[name].items()} == fields


@pytest.mark.parametrize("text", blocks("shapes.md", "yaml"))
def test_an_example_shape_is_accepted_without_a_warning(text: str):
    assert ClusterSpec.parse(yaml.safe_load(text)).warnings() == []
