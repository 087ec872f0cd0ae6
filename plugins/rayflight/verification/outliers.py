"""Who is far below the others: a robust test that one slow GPU cannot hide from. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from statistics import median
from typing import TypeVar

FEWEST = 3  # of two that differ, nobody can say which is wrong
_SCORE = 3.5  # Iglewicz and Hoaglin's limit for the modified z-score
_WORTH = 0.9  # a GPU within a tenth of the median is no straggler, however alike the others are

Key = TypeVar("Key", bound=Hashable)


def far_below(values: Mapping[Key, float]) -> tuple[Key, ...]:
    """The keys whose value is an outlier on the low side: by median and MAD, not by mean and deviation.

    >>> far_below({"a": 100.0, "b": 101.0, "c": 99.0, "d": 60.0})
    ('d',)
    >>> far_below({"a": 100.0, "b": 60.0})
    ()
    """
    if len(values) < FEWEST:
        return ()
    middle = median(values.values())
    spread = median(abs(value - middle) for value in values.values())
    return tuple(
        key for key, value in values.items() if value < _WORTH * middle and 0.6745 * (middle - value) > _SCORE * spread
    )
