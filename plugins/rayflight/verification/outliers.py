"""Who is far below the others: a robust test that one slow GPU cannot hide from. Pure.

Of the logarithms, for speeds are compared by ratio: counted in GB/s, a GPU that stands still would be no further from a
median of 10 than one of 20, and no outlier among figures that spread by a fifth.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
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
    >>> far_below({"a": 10.0, "b": 13.0, "c": 8.0, "d": 0.2})
    ('d',)
    """
    if len(values) < FEWEST:
        return ()
    middle, spread = _middle_and_spread(values.values())
    return tuple(key for key, value in values.items() if _is_far_below(value, middle, spread))


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
    middle, spread = _middle_and_spread(earlier)
    return _is_far_below(value, middle, max(spread, _STEADY))


def _middle_and_spread(values: Iterable[float]) -> tuple[float, float]:
    """The median, and the median ratio to it as a logarithm (0.1: the half of them within some 10 %)."""
    known = list(values)
    middle = median(known)
    return middle, median(_below(value, middle) if value < middle else _below(middle, value) for value in known)


def _is_far_below(value: float, middle: float, spread: float) -> bool:
    return value < _WORTH * middle and 0.6745 * _below(value, middle) > _SCORE * spread


def _below(value: float, middle: float) -> float:
    """How far below, as a logarithm of the ratio: one tenth is 2.3, a half is 0.7."""
    return math.log(middle / value) if value > 0 else math.inf
