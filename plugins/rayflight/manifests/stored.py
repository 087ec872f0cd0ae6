"""Compare what the API server stored with what was asked: an older CRD drops fields without a word. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayflight.specs.pods import KubeObject


def dropped_fields(asked: KubeObject, stored: KubeObject) -> list[str]:
    """Paths that were asked for and are not stored (``spec.authOptions``). What the server added does not count."""
    return list(_missing(asked, stored, ""))


def _missing(asked: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(asked, Mapping):
        for key, value in asked.items():
            here = f"{path}.{key}" if path else str(key)
            if not isinstance(stored, Mapping) or key not in stored:
                if value not in (None, {}, []):  # empty is what absent means
                    yield here
            else:
                yield from _missing(value, stored[key], here)
    elif isinstance(asked, list | tuple):
        for number, value in enumerate(asked):
            here = f"{path}[{number}]"
            if not isinstance(stored, list | tuple) or number >= len(stored):
                yield here
            else:
                yield from _missing(value, stored[number], here)
