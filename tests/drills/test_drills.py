"""Failure drills on the testbed: the quick ones for every change, the rest marked `full`. One test per drill.

Not in one session with tests/kube: both borrow the testbed for as long as they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from dev.drills import __main__ as drills
from dev.drills.flying import Hangar
from dev.drills.results import Row
from dev.drills.table import Drill, read

QUICK = [drill for drill in read() if drill.quick]
SLOW = [drill for drill in read() if not drill.quick and not drill.needs]
_FLOWN: dict[bool, Mapping[str, Row]] = {}


@pytest.fixture(scope="module")
def hangar() -> Iterator[Hangar]:
    with drills.hangar(drills.options([])) as made:
        yield made


def flown(hangar: Hangar, chosen: list[Drill], *, quick: bool) -> Mapping[str, Row]:
    """All of them at the first call: one by one they would take hours."""
    if quick not in _FLOWN:
        _FLOWN[quick] = {row.drill: row for row in drills.fly(hangar, chosen, parallel=3)}
    return _FLOWN[quick]


@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize("drill", QUICK, ids=lambda drill: drill.name)
def test_a_quick_drill_is_named_told_and_cleared_away(hangar: Hangar, drill: Drill):
    assert flown(hangar, QUICK, quick=True)[drill.name].wrong == ()


@pytest.mark.full
@pytest.mark.timeout(3600, func_only=True)
@pytest.mark.parametrize("drill", SLOW, ids=lambda drill: drill.name)
def test_any_other_drill_is_named_told_and_cleared_away(hangar: Hangar, drill: Drill):
    assert flown(hangar, SLOW, quick=False)[drill.name].wrong == ()
