"""The timeline in the archive: complete, in order, once, whoever is killed, wakes up or takes over."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from rayflight.archive import Archive
from rayflight.recorder import Recorder, changes, timeline
from rayflight.recorder.reading import parse, plain
from tests.made_up import event, head, pending, ray, worker
from tests.unit.recorder.looking import FOLDER, archive, recorded, seen, segments, silent, texts

BORN = seen(1, pods=(head(), pending(1)), ray=ray(head()))
RUNS = seen(20, pods=(head(), worker(1)), ray=ray(head(), worker(1)))
GONE = seen(40, pods=(head(),), ray=ray(head()))


async def test_it_reads_back_in_time_order_what_was_seen(tmp_path: Path):
    found = await recorded(tmp_path, [BORN, RUNS, GONE])
    assert [change.when for change in found] == sorted(change.when for change in found)
    told = texts(found)
    assert "pod flight-gpu-worker-1 appears: Pending" in told
    assert told.index("pod flight-gpu-worker-1: Pending → Running") < told.index(
        "pod flight-gpu-worker-1 is gone (was Running)"
    )


def test_people_read_what_tells_something_and_how_much_was_left_out():
    told = [event("Created", "Container created", about=worker(1)), event("BackOff", "Back-off", about=worker(1))]
    text = plain(changes(seen(1), seen(2, events=tuple(replace(item, type="Normal") for item in told))))
    assert text.splitlines() == [
        "2026-12-01 (UTC)",
        "10:00:02.000  kubernetes  Pod flight-gpu-worker-1: BackOff: Back-off",
        "1 events of every start (Scheduled, Created, …) stand in timeline/*.jsonl only",
    ]


async def test_the_next_task_goes_on_where_the_last_one_stopped(tmp_path: Path):
    await recorded(tmp_path, [BORN])
    found = await recorded(tmp_path, [RUNS])
    together = await recorded(tmp_path / "other", [BORN, RUNS])
    assert texts(found) == texts(together)


async def test_events_between_two_tasks_are_told_from_the_api(tmp_path: Path):
    await recorded(tmp_path, [BORN])
    between = event("Killing", "Stopping container", about=worker(1))
    found = await recorded(tmp_path, [replace(GONE, events=(between,))])
    assert "Pod flight-gpu-worker-1: Warning Killing: Stopping container" in texts(found)


async def test_an_event_is_told_once_however_many_tasks_see_it(tmp_path: Path):
    same = event("BackOff", "Back-off", about=worker(1), count=3)
    for number in range(3):
        again = replace(same, count=3 + number)
        found = await recorded(tmp_path, [seen(number * 10, events=(again,))])
    told = [text for text in texts(found) if "BackOff" in text]
    assert len(told) == 1
    assert "×5" in told[0]


async def test_events_of_one_pod_are_told_apart(tmp_path: Path):
    pulled, started, again = (event(reason, "container", about=worker(1)) for reason in ("Pulled", "Started", "Pulled"))
    found = await recorded(tmp_path, [seen(50, events=(pulled, started, replace(again, first_at=seen(40).taken_at)))])
    assert len([change for change in found if change.key.kind == "event"]) == 3


async def test_a_long_silence_between_two_tasks_is_a_gap_record(tmp_path: Path):
    await recorded(tmp_path, [BORN])
    found = await recorded(tmp_path, [seen(500, pods=BORN.pods, ray=BORN.ray)])
    gap = found[-1]
    assert gap.key.kind == "gap"
    assert gap.text.startswith("nobody looked from 10:00:01 to 10:08:20 (499 s)")


async def test_a_recording_that_begins_late_says_so(tmp_path: Path):
    found = await recorded(tmp_path, [seen(120)])
    assert any("the recording begins after the cluster did" in text for text in texts(found))


async def test_a_short_pause_is_no_gap(tmp_path: Path):
    await recorded(tmp_path, [BORN])
    assert not [change for change in await recorded(tmp_path, [RUNS, GONE]) if change.key.kind == "gap"]


async def test_a_kill_at_any_byte_loses_nothing_earlier_and_the_next_task_mends_it(tmp_path: Path):
    await recorded(tmp_path, [BORN])
    whole_before = texts(await timeline(archive(tmp_path), FOLDER))
    checkpoints = {path: path.read_bytes() for path in (tmp_path / FOLDER / "timeline").glob("state-*")}
    await recorded(tmp_path, [RUNS])
    whole = texts(await timeline(archive(tmp_path), FOLDER))
    last = segments(tmp_path)[-1]
    data = last.read_bytes()
    for cut in range(len(data)):
        last.write_bytes(data[:cut])
        found = texts(await timeline(archive(tmp_path), FOLDER))
        assert set(whole_before) <= set(found)
        assert set(found) <= set(whole)
    for path in (tmp_path / FOLDER / "timeline").glob("state-*"):  # killed before the checkpoint was written
        path.unlink()
    for path, state in checkpoints.items():
        path.write_bytes(state)
    last.write_bytes(data[: len(data) // 2])
    assert texts(await recorded(tmp_path, [replace(RUNS, taken_at=seen(21).taken_at)])) == whole


async def test_a_checkpoint_that_is_cut_off_at_any_byte_costs_no_record(tmp_path: Path):
    await recorded(tmp_path, [BORN, RUNS])
    whole = texts(await timeline(archive(tmp_path), FOLDER))
    states = sorted((tmp_path / FOLDER / "timeline").glob("state-*"), key=lambda path: path.stat().st_mtime_ns)
    data = states[-1].read_bytes()
    for cut in range(0, len(data), 97):
        states[-1].write_bytes(data[:cut])
        assert texts(await recorded(tmp_path, [replace(RUNS, taken_at=seen(21).taken_at)])) == whole


async def test_two_writers_that_see_the_same_give_it_once(tmp_path: Path):
    first, second = (Recorder(archive(tmp_path), silent) for _ in range(2))
    for look in (BORN, RUNS, GONE):
        await asyncio.gather(first.record(FOLDER, look), second.record(FOLDER, look))
    await asyncio.gather(first.close(), second.close())
    alone = await recorded(tmp_path / "alone", [BORN, RUNS, GONE])
    assert texts(await timeline(archive(tmp_path), FOLDER)) == texts(alone)


async def test_two_writers_at_the_same_moment_do_not_overwrite_each_other(tmp_path: Path):
    first, second = (Recorder(archive(tmp_path), silent) for _ in range(2))
    await first.record(FOLDER, replace(BORN, events=(event("One", "seen by the first"),)))
    await second.record(FOLDER, replace(BORN, events=(event("Two", "seen by the second"),)))
    await asyncio.gather(first.close(), second.close())
    told = " ".join(texts(await timeline(archive(tmp_path), FOLDER)))
    assert "seen by the first" in told
    assert "seen by the second" in told


async def test_a_frozen_writer_that_wakes_up_repeats_nothing(tmp_path: Path):
    frozen = Recorder(archive(tmp_path), silent)
    await frozen.record(FOLDER, BORN)
    await recorded(tmp_path, [RUNS, GONE])
    await frozen.record(FOLDER, replace(GONE, taken_at=seen(45).taken_at))
    await frozen.close()
    told = texts(await timeline(archive(tmp_path), FOLDER))
    assert len(told) == len(set(told))
    assert told.count("pod flight-gpu-worker-1 is gone (was Running)") == 1


async def test_secrets_are_masked_and_lines_stay_whole(tmp_path: Path):
    said = (
        event("Failed", "cookie: session=abcdefghijk", about=worker(1)),
        event("Failed", 'the argument "password=hunter2hunter2" is odd', about=worker(1)),
    )
    await recorded(tmp_path, [seen(1, events=said)])
    data = b"".join(path.read_bytes() for path in segments(tmp_path))
    assert b"hunter2" not in data
    assert b"abcdefghijk" not in data
    assert len(list(parse(data))) == data.count(b"\n")


class Full(Archive):
    """A store that takes nothing."""

    async def write(self, name: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")


async def test_a_full_disk_is_said_once_and_fails_nothing(tmp_path: Path):
    said: list[str] = []
    recorder = Recorder(Full(tmp_path, url="file:///full"), lambda message, *args: said.append(message % args))
    for look in (BORN, RUNS, GONE):
        await recorder.record(FOLDER, look)
    await recorder.close()
    assert len(said) == 1
    assert recorder.missing == (f"the flight recorder of {FOLDER}: [Errno 28] No space left on device",)


class Hiccup(Archive):
    """A store that refuses the first write."""

    refused = 0

    async def write(self, name: str, data: bytes) -> None:
        if not self.refused:
            self.refused += 1
            raise OSError(110, "Connection timed out")
        await super().write(name, data)


async def test_what_could_not_be_written_is_written_later(tmp_path: Path):
    store = Hiccup(tmp_path, url=tmp_path.as_uri())
    recorder = Recorder(store, lambda *_: None)
    for look in (BORN, RUNS, GONE):
        await recorder.record(FOLDER, look)
    await recorder.close()
    assert store.refused == 1
    assert texts(await timeline(store, FOLDER)) == texts(await recorded(tmp_path / "well", [BORN, RUNS, GONE]))


class Slow(Archive):
    """A store that answers when the test says so."""

    gate: asyncio.Event
    saved: asyncio.Event

    async def write(self, name: str, data: bytes) -> None:
        await self.gate.wait()
        await super().write(name, data)
        if "/state-" in name:
            self.saved.set()


@pytest.mark.timeout(10)
async def test_a_kill_while_a_segment_is_written_loses_nothing_that_was_seen_meanwhile(tmp_path: Path):
    store = Slow(tmp_path, url=tmp_path.as_uri())
    store.gate, store.saved = asyncio.Event(), asyncio.Event()
    killed = Recorder(store, silent)
    await killed.record(FOLDER, BORN)
    await killed.record(FOLDER, RUNS)  # seen while the first segment is under way, never written
    store.gate.set()
    await store.saved.wait()
    found = await recorded(tmp_path, [replace(RUNS, taken_at=seen(21).taken_at)])
    assert texts(found) == texts(await recorded(tmp_path / "well", [BORN, RUNS]))


@pytest.mark.timeout(10)
async def test_a_slow_store_does_not_hold_up_the_run(tmp_path: Path):
    store = Slow(tmp_path, url=tmp_path.as_uri())
    store.gate, store.saved = asyncio.Event(), asyncio.Event()
    recorder = Recorder(store, silent)
    began = asyncio.get_running_loop().time()
    for look in (BORN, RUNS, GONE):
        await recorder.record(FOLDER, look)
    assert asyncio.get_running_loop().time() - began < 2
    store.gate.set()
    await recorder.close()
    assert texts(await timeline(store, FOLDER)) == texts(await recorded(tmp_path / "quick", [BORN, RUNS, GONE]))
