"""A log in segments is exact: it resumes at the byte where it stopped, whatever killed its writer."""

from pathlib import Path

import pytest

from rayflight.archive import Archive, Masker, SegmentedLog


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path, url=tmp_path.as_uri())


@pytest.fixture
def log(archive: Archive) -> SegmentedLog:
    return SegmentedLog(archive, "driver/rf-1")


async def test_an_empty_log_starts_at_byte_zero(log: SegmentedLog) -> None:
    assert await log.cursor() == 0


async def test_the_cursor_is_the_end_of_the_last_segment(log: SegmentedLog) -> None:
    cursor = await log.append(0, b"one\n")
    await log.append(cursor, b"two\n")
    assert await log.cursor() == 8
    assert await log.read_all() == b"one\ntwo\n"


async def test_a_segment_cut_off_while_it_was_written_is_written_again(log: SegmentedLog, tmp_path: Path) -> None:
    await log.append(0, b"one\n")
    await log.append(4, b"two\n")
    (tmp_path / "driver/rf-1" / f"{4:015d}-{8:015d}.log").write_bytes(b"tw")
    assert await log.cursor() == 4
    await log.append(4, b"two\n")
    assert await log.read_all() == b"one\ntwo\n"


async def test_two_writers_of_the_same_source_do_not_double_a_byte(log: SegmentedLog) -> None:
    await log.append(0, b"one\ntwo\n")
    await log.append(0, b"one\n")  # a frozen triggerer that woke up writes what it had read
    await log.append(4, b"two\nthree\n")
    assert await log.read_all() == b"one\ntwo\nthree\n"


async def test_bytes_after_a_missing_segment_do_not_count(log: SegmentedLog, tmp_path: Path) -> None:
    await log.append(0, b"one\n")
    await log.append(8, b"three\n")
    assert await log.cursor() == 4
    assert await log.read_all() == b"one\n"


async def test_masking_keeps_the_offsets_true(tmp_path: Path) -> None:
    log = SegmentedLog(Archive(tmp_path, url="", masker=Masker(["hunter22"])), "driver/rf-1")
    await log.append(0, b"the key is hunter22\n")
    assert await log.read_all() == b"the key is ********\n"
    assert await log.cursor() == 20
