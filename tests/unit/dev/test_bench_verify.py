"""The judge of `make bench-verify`: the median decides."""

from __future__ import annotations

import pytest

from dev.bench_verify import Lap, judge


@pytest.mark.parametrize(("seconds", "code"), [((9.0, 11.0, 40.0), 0), ((9.0, 26.0, 27.0), 1)])
def test_the_median_of_the_runs_is_held_to_the_budget(
    seconds: tuple[float, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge([Lap(between=it, task=it - 2, probe=3.2) for it in seconds]) == code
    assert ("kept" if code == 0 else "MISSED") in capsys.readouterr().out
