"""What else must be true of a drill that has to end well. Each proof returns what is missing, or nothing."""

from __future__ import annotations

from collections.abc import Callable

from dev.drills.observer import Observer
from dev.drills.provoke import Scene


def one_submission(observer: Observer, scene: Scene) -> str:
    """Ray's own list never held two."""
    texts = [sight.text for sight in observer.seen if sight.namespace == scene.namespace]
    ids = {text.split()[1] for text in texts if text.startswith("Submission ")}
    return "" if len(ids) == 1 else f"Ray was given {len(ids)} submissions: {', '.join(sorted(ids))}"


def scaled_up_and_down(observer: Observer, scene: Scene) -> str:
    """The RayCluster asked for two worker pods, and later for one."""
    texts = [sight.text for sight in observer.seen if sight.namespace == scene.namespace]
    desired = [text.split()[2] for text in texts if text.startswith("RayCluster ") and " desired=" in text]
    up = desired.index("desired=2") if "desired=2" in desired else None
    if up is None:
        return f"never scaled up: {', '.join(dict.fromkeys(desired))}"
    return "" if "desired=1" in desired[up:] else "never scaled down"


PROOFS: dict[str, Callable[[Observer, Scene], str]] = {
    "one-submission": one_submission,
    "scaled-up-and-down": scaled_up_and_down,
}
