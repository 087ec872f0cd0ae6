"""A timeline is bounded: whatever repeats without end is counted, and no kind of change is ever lost."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rayflight.recorder.change import Change, Key
from rayflight.recorder.folding import END, Folding
from rayflight.snapshot.model import Snapshot
from tests.made_up import at, ended, event, head, ray, with_container, worker
from tests.unit.recorder.looking import FOLDER, recorded, seen, texts

LIMIT = 5_000_000
_KINDS = ("BackOff", "Pulled", "Created", "Started", "Unhealthy", "Killing", "FailedMount", "Evicted", "Failed", "Odd")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / FOLDER / "timeline").iterdir())


def crash_loop(rounds: int, each: int) -> Iterator[Snapshot]:
    """A pod that dies and comes back under another name, with events of its own each time."""
    for number in range(rounds):
        pod = with_container(
            worker(1), "ray-worker", state="waiting", reason="CrashLoopBackOff", restarts=number, last=ended(1)
        )
        pod = replace(pod, name=f"flight-gpu-worker-{'bcdfg' if number % 2 else number:0>5}", uid=f"uid-{number}")
        events = tuple(
            event(
                _KINDS[one % 10],
                f"attempt {number} of {pod.name}: {'x' * 200}",
                about=pod,
                first_at=at(number + one / 100),
            )
            for one in range(each)
        )
        yield seen(number, pods=(head(), pod), ray=ray(head()), events=events)


async def test_ten_thousand_events_of_a_crash_loop_stay_small_and_keep_every_kind(tmp_path: Path):
    found = await recorded(tmp_path, crash_loop(1000, 10))
    assert size(tmp_path) < LIMIT
    told = " ".join(texts(found))
    assert all(kind in told for kind in _KINDS)
    counted = [change for change in found if change.count > 1 and "BackOff" in change.detail]
    assert max(change.count for change in counted) == 1000
    assert max(change.last or "" for change in counted) >= at(30)


async def test_one_event_that_repeats_ten_thousand_times_is_one_line(tmp_path: Path):
    same = event("BackOff", "Back-off restarting failed container", about=worker(1))
    looks = [seen(number, events=(replace(same, count=number * 10 + 1),)) for number in range(1000)]
    found = await recorded(tmp_path, looks)
    assert [text for text in texts(found) if "BackOff" in text] == [
        "Pod flight-gpu-worker-1: Warning BackOff: Back-off restarting failed container (last 10:00:30) ×9991"
    ]
    assert size(tmp_path) < 100_000


async def test_five_hundred_pods_that_start_together_are_told_one_by_one_or_counted(tmp_path: Path):
    pods = tuple(worker(number) for number in range(500))
    found = await recorded(tmp_path, [seen(1, pods=(), ray=ray()), seen(2, pods=pods, ray=ray())])
    alone = [change for change in found if change.key.kind == "pod" and not change.key.aspect and not change.alike]
    together = [change.count for change in found if change.key.kind == "pod" and change.alike]
    assert len(alone) >= 300
    assert max(together) == 500


def test_what_is_all_different_ends_somewhere():
    folding = Folding()
    for number in range(30_000):
        words = "".join(chr(97 + number // 26**place % 26) for place in range(4))
        change = Change(at=at(number / 10), key=Key("ray", "submission", words), before=None, after=words * 80)
        told = folding.admit(change)
        folding.size += len(str(told.to_dict())) if told else 0
    assert folding.size < LIMIT
    assert END < LIMIT
