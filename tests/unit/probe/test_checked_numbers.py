"""What the ranks compute is checked, and a wrong number is seen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rayflight.probe.collective import sum_of_parts, turn_of
from rayflight.probe.compute import compute
from rayflight.probe.storage import Place


def test_without_torch_the_product_is_checked_and_said_to_be_pythons() -> None:
    found = compute(seed=1)
    assert (found["matmul_ok"], found["max_error"]) == (True, 0.0)
    assert "torch is not installed" in found["device"]


def test_a_product_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Drifting(random.Random):
        """Numbers that change when they are read again, like a bit that flips."""

        def randint(self, a: int, b: int) -> int:
            return Flipping(super().randint(a, b))

    class Flipping(int):
        reads = 0

        def __mul__(self, other: int) -> int:
            type(self).reads += 1
            return int(self) * int(other) + (type(self).reads == 1000)

    monkeypatch.setattr("rayflight.probe.compute.random.Random", Drifting)
    found = compute(seed=1)
    assert found["matmul_ok"] is False
    assert found["max_error"] > 0


def test_the_sum_of_all_parts_is_right() -> None:
    found = sum_of_parts([[1.0] * 4, [2.0] * 4, [3.0] * 4], 3)
    assert (found["ok"], found["sum"], found["world_size"]) == (True, 6.0, 3)


@pytest.mark.parametrize("parts", [[[1.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0]]])
def test_a_wrong_or_missing_part_is_seen(parts: list[list[float]]) -> None:
    assert sum_of_parts(parts, 2)["ok"] is False


def test_all_ranks_read_what_all_wrote(tmp_path: Path) -> None:
    for rank in range(2):
        Place(str(tmp_path / "run"), "n1").write(rank, f"text {rank}")
    assert [Place(f"file://{tmp_path}/run", "n1").read(rank) for rank in range(2)] == ["text 0", "text 1"]
    with pytest.raises(FileNotFoundError):
        Place(str(tmp_path / "run"), "n2").read(0)
    Place(str(tmp_path / "run"), "n1").clear(2)
    assert [path.name for path in (tmp_path / "run").rglob("*")] == [".rayflight-probe"]


@pytest.mark.parametrize("size", range(2, 10))
def test_in_each_turn_of_the_ring_a_rank_sends_or_receives_and_each_link_has_one(size: int) -> None:
    turns = [turn_of(rank, size) for rank in range(size)]
    assert set(turns) <= {0, 1, 2}
    assert all(turns[rank] != turns[(rank - 1) % size] for rank in range(size))
