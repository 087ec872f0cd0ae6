"""Trainings in which nothing moves: four ranks on two worker pods, two samples of each."""

from __future__ import annotations

from rayflight.snapshot.hang import Frame, Hang, Sample, TrainingProcess
from tests.examples.shape import NOTED, PODS, Example, show
from tests.made_up import at, job, ray

OUTER = (
    Frame(function="train_rank", file="train.py", line=120),
    Frame(function="ThreadRunner._run_target", file="ray/train/v2/_internal/thread_runner.py", line=37),
    Frame(function="Thread.run", file="threading.py", line=982),
)


def stack(*inside: tuple[str, str, int], busy: bool = False) -> Sample:
    """Innermost call first."""
    frames = tuple(Frame(function=name, file=file, line=line) for name, file, line in inside)
    return Sample(frames=(*frames, *OUTER), busy=busy, how="py-spy")


def reducing(line: int = 40) -> Sample:
    return stack(("all_reduce", "torch/distributed/distributed_c10d.py", 2810), ("step", "train.py", line), busy=True)


BARRIER = stack(("barrier", "torch/distributed/distributed_c10d.py", 4159), ("evaluate", "train.py", 61))
LOADER = stack(
    ("Condition.wait", "threading.py", 327),
    ("Queue.get", "queue.py", 171),
    ("_MultiProcessingDataLoaderIter._try_get_data", "torch/utils/data/dataloader.py", 1133),
    ("step", "train.py", 33),
)
COMPUTING = (stack(("forward", "model.py", 12), busy=True), stack(("backward", "model.py", 90), busy=True))
STOPPED = Sample(state="T", why="py-spy found the process stopped")
MUTE = Sample(state="D", why="py-spy: did not answer within 8 s")


def rank(number: int, *samples: Sample) -> TrainingProcess:
    pod = PODS[1 + number % 2]
    return TrainingProcess(
        pid=1000 + number,
        ray_node=f"ray-{pod.name}",
        name="RayTrainWorker",
        rank=number,
        pod=pod.name,
        node=pod.node or "",
        gpu=str(number // 2),
        samples=samples if len(samples) > 1 else samples * 2,
    )


def silence(*ranks: TrainingProcess, **changes: object) -> Hang:
    return Hang(
        submission="train-1",
        since=at(10),
        sign="no training report for 40 s, its usual step takes 2 s",
        taken_at=(at(50), at(58)),
        processes=ranks,
        **changes,  # type: ignore[arg-type]
    )


def hung(last: TrainingProcess, *says: str, others: Sample | None = None) -> Example:
    healthy = [rank(number, others or reducing()) for number in (0, 1, 2)]
    return show(*says, ray=ray(*PODS, jobs=(job(),)), noted=NOTED, hang=silence(*healthy, last))


EXAMPLES: dict[str, Example] = {
    "rank-stuck": hung(
        rank(3, LOADER),
        f"rank 3 on pod {PODS[2].name}, node gpu-2, GPU 1: waiting for input data",
        "3 others wait for it in all_reduce",
    ),
    "collectives-out-of-step": hung(
        rank(3, BARRIER),
        "rank 3 on pod",
        "waiting in barrier, in evaluate (train.py:61)",
        "ranks 0, 1, 2 wait in all_reduce, called at step (train.py:40)",
    ),
    "training-stands-still": hung(rank(3, reducing()), "ranks 0, 1, 2, 3: waiting in all_reduce"),
    "rank-slow": hung(rank(3, *COMPUTING), "still moves (now computing", "3 others wait for it in all_reduce"),
    "rank-stopped": hung(rank(3, STOPPED), "is stopped (state T)", "3 others wait for it in all_reduce"),
    "rank-does-not-answer": hung(rank(3, MUTE), "gives no stack (in the kernel (state D))", "3 others wait for it"),
}
