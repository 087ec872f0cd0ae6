"""What else must be true of a drill that has to end well. Each proof returns what is missing, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dev.drills.observer import Observer
from dev.drills.provoke import Scene

Trained = Mapping[str, Any] | None  # what the training's task returned


def one_submission(observer: Observer, scene: Scene, _trained: Trained) -> str:
    """Ray's own list never held two."""
    texts = [sight.text for sight in observer.seen if sight.namespace == scene.namespace]
    ids = {text.split()[1] for text in texts if text.startswith("Submission ")}
    return "" if len(ids) == 1 else f"Ray was given {len(ids)} submissions: {', '.join(sorted(ids))}"


def scaled_up_and_down(observer: Observer, scene: Scene, _trained: Trained) -> str:
    """The RayCluster asked for two worker pods, and later for one."""
    texts = [sight.text for sight in observer.seen if sight.namespace == scene.namespace]
    desired = [text.split()[2] for text in texts if text.startswith("RayCluster ") and " desired=" in text]
    up = desired.index("desired=2") if "desired=2" in desired else None
    if up is None:
        return f"never scaled up: {', '.join(dict.fromkeys(desired))}"
    return "" if "desired=1" in desired[up:] else "never scaled down"


def told_of_the_gpu(_observer: Observer, _scene: Scene, trained: Trained) -> str:
    """The training went on, and its result says which device went bad meanwhile."""
    rows = (trained or {}).get("watched") or ()
    told = [str(row.get("observed")) for row in rows]
    return "" if any("nhealthy" in text for text in told) else f"nothing was told of the GPU: {told}"


PROOFS: dict[str, Callable[[Observer, Scene, Trained], str]] = {
    "one-submission": one_submission,
    "scaled-up-and-down": scaled_up_and_down,
    "told-of-the-gpu": told_of_the_gpu,
}
