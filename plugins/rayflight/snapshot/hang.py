"""What was seen of a training in which nothing moves: its processes, each with samples of its stack. Frozen facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call of a stack. ``file`` is short (``torch/utils/data/dataloader.py``, ``train.py``)."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at a process: its training thread's frames, innermost first; none, and then ``why`` there are none.

    ``state`` is the kernel's letter where it is known (T stopped, D in the kernel); ``how`` is the way the stack came.
    ``unanswered``: the question was let through, and no answer came in time (a refusal says nothing of the process).
    """

    frames: tuple[Frame, ...] = ()
    busy: bool = False
    state: str = ""
    why: str = ""
    how: str = ""
    unanswered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProcess:
    """One process of a training: a rank where its number is known, else an actor, a task, or the driver (``name``).

    ``pod`` and ``node`` are of Kubernetes, ``ray_node`` is Ray's id; ``gpus`` is how many it asked for, ``gpu`` the
    index of its first in the pod, empty where nobody knows it.
    """

    pid: int
    ray_node: str
    name: str
    rank: int | None = None
    pod: str = ""
    node: str = ""
    gpus: float = 0.0
    gpu: str = ""
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """A silence that was looked into. ``since`` is the last sign of progress, ``sign`` says what is missing.

    ``on_hang`` is what the job says should become of it; ``taken_at`` are the times of the samples. ``ended``: the
    submission was stopped for it.
    """

    submission: str
    since: str
    sign: str
    on_hang: str = "report"
    taken_at: tuple[str, ...] = ()
    processes: tuple[TrainingProcess, ...] = ()
    ended: bool = False
