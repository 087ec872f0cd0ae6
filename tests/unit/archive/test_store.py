"""The archive says what is wrong with itself: not writable, not shared."""

import json
from pathlib import Path

import pytest

from rayflight.archive import Archive
from rayflight.errors import ArchiveNotShared, InvalidSpec


async def test_a_process_that_cannot_read_the_marker_says_that_the_archive_is_not_shared(tmp_path: Path) -> None:
    with pytest.raises(ArchiveNotShared, match=r"not shared.*marker.*Next: use an object store"):
        await Archive(tmp_path / "elsewhere", url="file:///elsewhere").check()


async def test_the_marker_that_plan_left_is_found(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "run", url="")
    await archive.open({"run": "r1"})
    await archive.check()


async def test_an_archive_that_cannot_be_written_is_refused_with_its_url(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidSpec, match=r"file:///in-the-way.*\[rayflight\] archive"):
        await Archive(tmp_path / "file" / "run", url="file:///in-the-way").open({})


async def test_masked_json_stays_json(tmp_path: Path) -> None:
    archive = Archive(tmp_path, url="")
    told = {"without_token": None, "api_key_count": 123456, "password": "correct-horse", "said": "token=abcdef123456"}
    await archive.write_json("a.json", told)
    read = json.loads(await archive.read("a.json") or b"")
    assert read == {**told, "password": "*****", "said": "token=************"}
