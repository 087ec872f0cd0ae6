"""A probe whose time is used up: who was not asked any more is not called silent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rayflight.probe.placement import Seat
from rayflight.probe.questions import Questions
from rayflight.verification.probed import not_asked, silent


class Deaf:
    """An actor that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked")


@pytest.mark.parametrize("left", [-1.0, 4.0])
def test_a_rank_that_was_not_asked_for_lack_of_time_is_not_silent(left: float) -> None:
    seats = [Seat(node_id="n1", node_ip="10.0.0.1", gpu=True)]
    questions = Questions(seats, time.monotonic() + left)
    questions._actors = [Deaf()]
    questions.ranks[0] |= {"python": "3.11.2", "torch": None}
    assert questions._ask("compute", 30.0) == [None]
    (rank,) = questions.ranks
    assert rank["failed"] == {"compute": "skipped, since the time of the probe is used up"}
    assert not silent(rank)
    assert not_asked(rank, "compute")
