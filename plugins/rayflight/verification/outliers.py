"""Who is far below the others: a robust test that one slow GPU cannot hide from. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from statistics import median
from typing import TypeVar

FEWEST = 3  # of two that differ, nobody can say which is wrong
_SCORE = 3.5  # Iglewicz and Hoaglin's limit for the modified z-score
ENOUGH = 5  # earlier figures that make a measure: fewer may all be one odd day
_STEADY = 0.02  # of the median: however alike earlier figures are, so much is noise
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


def below_earlier(value: float, earlier: Sequence[float]) -> bool:
    """Whether a figure is far below what was measured before: the criterion is learned, none is written down.

    >>> below_earlier(82.0, [100.0, 101.0, 99.0, 100.0, 102.0])
    True
    >>> below_earlier(82.0, [100.0, 101.0, 99.0])
    False
    >>> below_earlier(82.0, [100.0, 60.0, 140.0, 80.0, 120.0])
    False
    """
    if len(earlier) < ENOUGH:
        return False
    middle = median(earlier)
    spread = max(median(abs(it - middle) for it in earlier), _STEADY * middle)
    return value < _WORTH * middle and 0.6745 * (middle - value) > _SCORE * spread
