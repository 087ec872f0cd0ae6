"""The form of an example, and the shapes that many of them share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rayflight.snapshot.model import Pod, Ray, Snapshot
from rayflight.states import JobStatus
from tests.made_up import SESSION, at, container, head, job, ray, snapshot, worker

PODS = (head(), worker(1), worker(2))
NOTED = {"session": SESSION, "submission": "train-1"}


@dataclass(frozen=True)
class Example:
    """What is seen, what was noted before, and words that the summary must hold."""

    seen: Snapshot
    says: tuple[str, ...] = ()
    noted: dict[str, Any] = field(default_factory=dict)


def show(*says: str, noted: dict[str, Any] | None = None, **changes: Any) -> Example:
    return Example(snapshot(**changes), says, noted or {})


def second(**changes: Any) -> tuple[Pod, ...]:
    """The usual pods, the second worker changed."""
    return (head(), worker(1), worker(2, **changes))


def failed(message: str, *, log: str = "", **changes: Any) -> dict[str, Any]:
    """A submission that FAILED on a whole cluster."""
    ended = job(JobStatus.FAILED, message=message, ended_at=at(50), **changes)
    return {"ray": ray(*PODS, jobs=(ended,)), "logs": {"driver/train-1": log} if log else {}}


def running(
    *, log: str = "", pods: tuple[Pod, ...] = PODS, status: JobStatus = JobStatus.RUNNING, **changes: Any
) -> dict[str, Any]:
    """A submission that runs."""
    side: Ray = ray(*pods, jobs=(job(status, **changes),))
    return {"ray": side, "logs": {"driver/train-1": log} if log else {}}


def init_runs(number: int, **changes: Any) -> Pod:
    """A worker pod whose init container looks for the head."""
    waiting = container("wait-gcs-ready", init=True, state="running", ready=False, started_at=at(5))
    main = container("ray-worker", gpus=1, state="waiting", reason="PodInitializing", ready=False)
    return worker(number, phase="Pending", conditions=(), **{"containers": (waiting, main), **changes})
