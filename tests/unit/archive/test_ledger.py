"""A value has one winner per version, on every store of the archive."""

import asyncio
from pathlib import Path

from rayflight.archive import Archive, Ledger


def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Archive(tmp_path, url=""), "alerts")


async def test_a_value_that_was_never_set_has_version_zero(tmp_path: Path) -> None:
    assert await ledger(tmp_path).read("x") == (0, None)


async def test_a_value_is_read_back_with_its_version(tmp_path: Path) -> None:
    values = ledger(tmp_path)
    assert await values.compare_and_set("x", 0, {"a": 1})
    assert await values.compare_and_set("x", 1, {"a": 2})
    assert await values.read("x") == (2, {"a": 2})
    assert list(await values.keys()) == ["x"]


async def test_of_many_that_set_the_same_version_at_once_one_wins(tmp_path: Path) -> None:
    won = await asyncio.gather(*(ledger(tmp_path).compare_and_set("x", 0, {"by": n}) for n in range(8)))
    assert won.count(True) == 1
    assert (await ledger(tmp_path).read("x"))[1] == {"by": won.index(True)}


async def test_old_versions_are_removed_and_a_forgotten_key_has_none(tmp_path: Path) -> None:
    values = ledger(tmp_path)
    for version in range(10):
        await values.compare_and_set("x", version, {})
    assert len(list((tmp_path / "alerts" / "x").iterdir())) == 4
    await values.forget("x")
    assert (await values.read("x"))[1] is None
