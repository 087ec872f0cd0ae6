"""A recorded timeline as the two columns of a report: Kubernetes and Ray side by side. Pure.

The archive holds every change; a report has room for some. What concerns the cause, what is gone, what warned and what
was not seen stays, in order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rayflight.diagnosis.timeline import ROWS, Entry, named, shortened
from rayflight.findings import Diagnosis
from rayflight.recorder.change import EVENT, GAP, KUBERNETES, RAY, RECORDER, Change
from rayflight.recorder.facts import CLUSTER, JOB, RAY_NODE, SESSION, WORKLOAD
from rayflight.recorder.reading import is_routine

_TELLING = frozenset({CLUSTER, JOB, RAY_NODE, SESSION, WORKLOAD})


def columns(changes: Iterable[Change], diagnosis: Diagnosis | None = None, *, rows: int = ROWS) -> tuple[Entry, ...]:
    """The entries of a report, oldest first."""
    return shortened(_entries(changes, named(diagnosis)), rows)


def _entries(changes: Iterable[Change], about: frozenset[str]) -> Iterator[Entry]:
    for change in changes:
        if not is_routine(change):
            yield Entry(at=change.when, side=_side(change), text=change.text, weight=_weight(change, about))


def _side(change: Change) -> str:
    """What the recorder could not read stands where it would have stood."""
    layer, _, name, _ = change.key
    return RAY if layer == RAY or (layer == RECORDER and name.startswith(RAY)) else KUBERNETES


def _weight(change: Change, about: frozenset[str]) -> int:
    key = change.key
    object_name = key.name.split()[-1] if key.kind == EVENT and key.name else key.name
    weight = 2 if object_name in about else 0
    if key.kind == GAP:
        weight += 4 if change.after is not None else 1  # what can be read again is of less weight
    elif key.kind == EVENT:
        weight += 2 if change.detail.startswith("Warning") else 0
    elif not key.aspect:
        weight += 3 if change.after is None or key.kind in _TELLING else 1
    elif key.kind == WORKLOAD:
        weight += 2
    return weight
