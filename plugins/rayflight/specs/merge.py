"""How overrides change a Kubernetes object: dictionaries merge, named items merge by their name, null removes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

# What tells the items of a list apart, in the order tried. A mount's name may stand twice, its path may not.
_KEYS = ("groupName", "mountPath", "name")


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it; neither is touched."""
    merged = deepcopy(dict(base))
    for key, change in changes.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = _laid_over(merged.get(key), change)
    return merged


def _laid_over(old: Any, change: Any) -> Any:
    if isinstance(change, Mapping):
        return merge(old if isinstance(old, Mapping) else {}, change)
    if isinstance(change, list | tuple) and isinstance(old, list):
        key = _common_key([*old, *change])
        return _by_key(old, change, key) if key else deepcopy(list(change))
    return deepcopy(change)


def _by_key(old: Sequence[Any], changes: Sequence[Any], key: str) -> list[Any]:
    merged = {item[key]: item for item in old}
    if len(merged) < len(old):  # not a key here: what is meant cannot be told
        return deepcopy(list(changes))
    for change in changes:
        merged[change[key]] = merge(merged.get(change[key], {}), change)
    return list(merged.values())


def _common_key(items: Sequence[Any]) -> str | None:
    for key in _KEYS:
        if items and all(isinstance(item, Mapping) and key in item for item in items):
            return key
    return None
