"""From several moments of one cluster to one diagnosis: the newest is judged, earlier ones say what has been. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rayflight.diagnosis.judge import diagnose
from rayflight.findings import Diagnosis
from rayflight.snapshot.model import Snapshot
from rayflight.states import JobStatus


def diagnose_moments(moments: Sequence[Snapshot]) -> Diagnosis:
    """Judge the newest of them, oldest first. What must have been noted at submission is read from the earlier ones."""
    *earlier, newest = _until_done(moments)
    return diagnose(newest, previous=_before(earlier, newest), history=earlier)


def _until_done(moments: Sequence[Snapshot]) -> Sequence[Snapshot]:
    """Without the end of it all: that a cluster is taken away after its work was done is no fault."""
    kept = list(moments)
    while len(kept) > 1 and _leaving(kept[-1]) and _done(kept[:-1]):
        kept.pop()
    return kept


def _leaving(moment: Snapshot) -> bool:
    return moment.cluster is None or moment.cluster.deleting_since is not None


def _done(moments: Sequence[Snapshot]) -> bool:
    last = next((item.ray for item in reversed(moments) if item.ray), None)
    return last is not None and bool(last.jobs) and all(job.status is JobStatus.SUCCEEDED for job in last.jobs)


def _before(earlier: Sequence[Snapshot], newest: Snapshot) -> Snapshot | None:
    """The first moment that knows the most: whoever was there then and is not there now was lost."""
    uid = newest.cluster.uid if newest.cluster else None
    known = [item for item in earlier if item.cluster and (uid is None or item.cluster.uid == uid)]
    whole = [item for item in known if item.head and item.ray]
    some = [item for item in known if item.pods]
    return next(iter(whole or some or known), None)
