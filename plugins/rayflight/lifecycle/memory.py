"""What a follower remembers of the last minute: how it was before an end, and pods on their way out. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from rayflight.snapshot.model import Pod, Snapshot
from rayflight.snapshot.times import seconds_between

_SECONDS = 60.0  # a death that Ray noticed late (missed heartbeats) began within these
_SPACING = 20.0  # between moments that are kept only to know who was where: a triggerer follows many trainings
_LEAVINGS = 5  # moments with pods on their way out: who follows one training needs no more


@dataclass
class Memory:
    """Snapshots of one cluster, oldest first. Those with a pod that leaves are kept apart: they do not come again."""

    moments: deque[Snapshot] = field(default_factory=deque)
    _newest: str = ""
    _pods: frozenset[object] = frozenset()
    _leavings: deque[Snapshot] = field(default_factory=lambda: deque(maxlen=_LEAVINGS))

    @property
    def before(self) -> Snapshot | None:
        """How it was up to a minute ago, in both layers where both were seen."""
        return next((then for then in self.moments if then.ray), self.moments[0] if self.moments else None)

    @property
    def leavings(self) -> tuple[Snapshot, ...]:
        """Moments of the last minute in which a pod was on its way out."""
        recent = (seconds_between(then.taken_at, self._newest) for then in self._leavings)
        return tuple(then for then, ago in zip(self._leavings, recent, strict=True) if (ago or 0.0) <= _SECONDS)

    def lost_its_head(self, seen: Snapshot) -> bool:
        """Whether the head pod of a minute ago is gone or going: without fault tolerance its jobs are gone with it."""
        known = self.before.head if self.before else None
        if known is None or any(seen.gap(source) for source in ("pods", "cluster")) or seen.cluster is None:
            return False
        return known.uid not in {pod.uid for pod in seen.pods if pod.deleting_since is None}

    def was_head(self, node_id: str) -> bool:
        """Whether that Ray node was the head of the last minute."""
        return any(node.id == node_id for then in self.moments if then.ray for node in then.ray.nodes if node.is_head)

    def moved(self, seen: Snapshot) -> bool:
        """Remember this moment; whether a pod came, left or changed since the last one that was asked about."""
        known, self._pods = self._pods, frozenset(_state(pod) for pod in seen.pods)
        self.keep(seen)
        return bool(known) and known != self._pods

    def keep(self, seen: Snapshot) -> None:
        """Remember this moment, without the logs: they are large, and the last ones are the ones that count."""
        last = self.moments[-1] if self.moments else None
        first_of_ray = last is not None and last.ray is None and seen.ray is not None
        if last is None or first_of_ray or _apart(last, seen) >= _SPACING:
            self.moments.append(replace(seen, logs={}, events=()))
        while len(self.moments) > 1 and _apart(self.moments[0], seen) > _SECONDS:
            self.moments.popleft()
        if any(_leaves(pod) for pod in seen.pods):
            self._leavings.append(replace(seen, logs={}))
        self._newest = seen.taken_at


def _state(pod: Pod) -> tuple[object, ...]:
    return pod.uid, pod.phase, pod.deleting_since, *((it.state, it.restarts, it.ready) for it in pod.containers)


def _apart(then: Snapshot, now: Snapshot) -> float:
    return seconds_between(then.taken_at, now.taken_at) or 0.0


def _leaves(pod: Pod) -> bool:
    disrupted = pod.condition("DisruptionTarget")
    return bool(pod.deleting_since) or pod.phase == "Failed" or (disrupted is not None and disrupted.status == "True")
