"""Where the processes of a silent training stand: grouped, told apart into who waits and who is waited for. Pure.

Processes that wait for each other stand at one place; who does not come stands elsewhere. The largest group is the
healthy one; between groups of one size it is the one that waits in a collective, or where DDP exchanges gradients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rayflight.snapshot.hang import Frame, Hang, Sample, TrainingProcess
from rayflight.snapshot.stacks import is_machinery

Place = tuple[tuple[str, str, int], ...]

_HELD = ("D", "Z")  # in the kernel; dead and not collected
_TWICE = 2
_COLLECTIVE = re.compile(
    r"^_?(?:all_?reduce|all_?gather|reduce_scatter|broadcast|(?:monitored_)?barrier|all_?to_?all)(?:_[a-z_0-9]+)?$"
)
_EXCHANGE = re.compile(r"^(?:_engine_run_backward|synchronize)$")
_DATA_FUNCTION = re.compile(r"^(?:__next__|_?next_(?:data|batch)|_try_get_data|_get_data|iter_batches|next_index)$")
_DATA_FILE = re.compile(r"(?:^ray/data/|data_?load|data_?set|^tensorflow/python/data/)")
_LIBRARIES = re.compile(r"^(?:torch|jax|tensorflow|deepspeed|accelerate|transformers|lightning|pytorch_lightning)/")
_NETWORK = re.compile(r"^(?:_?recv|recv_into|_recv_bytes|recv_bytes|_send|readinto|accept|connect|read)$")
_THREADS = re.compile(r"^(?:wait|get|acquire|join|result)$")


@dataclass(frozen=True, slots=True)
class Standing:
    """Processes in sorts. ``groups`` are those that did not move, the largest first. Who could not be seen (ptrace is
    refused, Ray serves no stacks) stands in none of them.
    """

    stopped: tuple[TrainingProcess, ...]
    mute: tuple[TrainingProcess, ...]
    moving: tuple[TrainingProcess, ...]
    groups: tuple[tuple[TrainingProcess, ...], ...]

    @property
    def healthy(self) -> tuple[TrainingProcess, ...]:
        """Who waits for the rest, or nobody where that cannot be told."""
        if not self.groups:
            return ()
        largest = [group for group in self.groups if len(group) == len(self.groups[0])]
        if len(largest) == 1:
            return largest[0]
        waits = [_waits_for_others(last(group[0])) for group in largest]
        return largest[waits.index(max(waits))] if waits.count(max(waits)) == 1 else ()

    @property
    def outliers(self) -> tuple[TrainingProcess, ...]:
        """Who stands still elsewhere than the healthy."""
        healthy = self.healthy
        return tuple(process for group in self.groups if group is not healthy for process in group) if healthy else ()


def standing(hang: Hang) -> Standing:
    """Sort the processes of a silence by what their samples show."""
    stopped = tuple(it for it in hang.processes if any(sample.state == "T" for sample in it.samples))
    rest = [it for it in hang.processes if it not in stopped]
    seen = [it for it in rest if any(sample.frames for sample in it.samples)]
    mute = tuple(it for it in rest if it not in seen and _mute(it))
    moving = tuple(it for it in seen if _moved(it))
    groups: dict[Place, list[TrainingProcess]] = {}
    for process in seen:
        if process not in moving:
            groups.setdefault(place(last(process)), []).append(process)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return Standing(stopped, mute, moving, tuple(tuple(group) for group in ordered))


def last(process: TrainingProcess) -> Sample:
    """The newest sample that has a stack."""
    return next((sample for sample in reversed(process.samples) if sample.frames), Sample())


def place(sample: Sample) -> Place:
    """Where the sample stands, as a key: from the outside in, up to the collective.

    Deeper than that, ranks of one collective differ by their part in it. The line of the innermost call of others'
    code counts only where nothing of Python's own stands below it.
    """
    outside_in = [frame for frame in reversed(sample.frames) if not is_machinery(frame)]
    key: list[tuple[str, str, int]] = []
    for frame in outside_in:
        if _COLLECTIVE.match(_word(frame)):
            return (*key, (frame.function, frame.file, 0))
        key.append((frame.function, frame.file, frame.line))
    innermost = sample.frames[0] if sample.frames else None
    if innermost is None or not is_machinery(innermost):
        return tuple(key)
    if key:
        key[-1] = (*key[-1][:2], 0)
    return (*key, (innermost.function, innermost.file, 0))


def collective(sample: Sample) -> str:
    """Name of the collective in which the sample stands, or nothing."""
    return next((_word(frame) for frame in reversed(sample.frames) if _COLLECTIVE.match(_word(frame))), "")


def joint(sample: Sample) -> str:
    """What it waits in together with others: a collective, or an idle backward pass, where DDP exchanges gradients."""
    return collective(sample) or ("its backward pass" if _exchanges(sample) and not sample.busy else "")


def _exchanges(sample: Sample) -> bool:
    """Whether gradients may be exchanged out of Python's sight: in a backward pass, or on a stream waited for."""
    return any(_EXCHANGE.match(_word(frame)) for frame in sample.frames)


def _waits_for_others(sample: Sample) -> int:
    """How surely."""
    return 2 if collective(sample) else int(_exchanges(sample))


def activity(sample: Sample) -> str:
    """What it does there, in words."""
    name = joint(sample)
    if name:
        return f"waiting in {name}"
    if any(_DATA_FUNCTION.match(_word(frame)) or _DATA_FILE.search(frame.file) for frame in sample.frames):
        return "waiting for input data"
    inmost = _word(sample.frames[0]) if sample.frames else ""
    if _NETWORK.match(inmost):
        return "waiting for the network or a file"
    if _THREADS.match(inmost) and is_machinery(sample.frames[0]):
        return "waiting for another thread"
    return "computing" if sample.busy else "standing"


def where(sample: Sample) -> str:
    """The frame to look at: the innermost of the user's own code that leads there, outside of a collective."""
    others = [frame for frame in sample.frames if not is_machinery(frame)]
    inside = [index for index, frame in enumerate(others) if _COLLECTIVE.match(_word(frame))]
    callers = others[inside[-1] + 1 :] if inside else others
    own = next((it for it in callers if not _LIBRARIES.match(it.file)), None)
    return str(own or (others or sample.frames)[0]) if sample.frames else ""


def named(process: TrainingProcess) -> str:
    """``rank 3 on pod x, node gpu-2, GPU 0``."""
    who = f"rank {process.rank}" if process.rank is not None else f"{process.name} (pid {process.pid})"
    parts = (
        f" on pod {process.pod}" if process.pod else f" on Ray node {process.ray_node[:8]}",
        f", node {process.node}" if process.node else "",
        f", GPU {process.gpu}" if process.gpu else "",
    )
    return who + "".join(parts)


def ranks(processes: Sequence[TrainingProcess], longest: int = 8) -> str:
    """``ranks 0, 1``, or how many processes."""
    numbers = sorted(it.rank for it in processes if it.rank is not None)
    if len(numbers) < len(processes):
        return f"{len(processes)} process{'es' if len(processes) > 1 else ''}"
    more = f" and {len(numbers) - longest} more" if len(numbers) > longest else ""
    shown = ", ".join(map(str, numbers[:longest])) + more
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"


def quoted(sample: Sample, longest: int = 8) -> str:
    """The stack on one line, innermost call first, without Ray's and Python's own outer frames."""
    frames = list(sample.frames)
    while len(frames) > 1 and is_machinery(frames[-1]):
        frames.pop()
    return " < ".join(str(frame) for frame in frames[:longest])


def _word(frame: Frame) -> str:
    """The function's own name: py-spy qualifies it where Python knows how."""
    return frame.function.rpartition(".")[2]


def _mute(process: TrainingProcess) -> bool:
    """Whether it gives no answer, which is more than that nobody may ask it."""
    held = any(sample.state in _HELD for sample in process.samples)
    return held or sum(sample.unanswered for sample in process.samples) >= _TWICE


def _moved(process: TrainingProcess) -> bool:
    """Whether two samples differ. A poll inside one collective is no movement."""
    seen = [sample for sample in process.samples if sample.frames]
    return len({place(sample) for sample in seen}) > 1
