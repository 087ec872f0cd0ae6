"""From several moments of one cluster to one diagnosis: the newest is judged, earlier ones say what has been. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rayflight.diagnosis.judge import diagnose
from rayflight.findings import Diagnosis
from rayflight.snapshot.model import Snapshot


def diagnose_moments(moments: Sequence[Snapshot]) -> Diagnosis:
    """Judge the newest of them, oldest first. What must have been noted at submission is read from the earlier ones."""
    *earlier, newest = moments
    return diagnose(newest, previous=_before(earlier, newest), history=earlier)


def _before(earlier: Sequence[Snapshot], newest: Snapshot) -> Snapshot | None:
    """The first moment that knows the most: whoever was there then and is not there now was lost."""
    uid = newest.cluster.uid if newest.cluster else None
    known = [item for item in earlier if item.cluster and (uid is None or item.cluster.uid == uid)]
    whole = [item for item in known if item.head and item.ray]
    some = [item for item in known if item.pods]
    return next(iter(whole or some or known), None)
