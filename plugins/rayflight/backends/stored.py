"""A stored RayCluster as others hand it on: whose it is, and whether an attempt may adopt it. Pure.

Both backends store the same object: the API server's etcd has it, or a folder of this machine.
"""

from __future__ import annotations

import json
from typing import Any

from rayflight import labels
from rayflight.backends.base import ClusterRef
from rayflight.errors import ForeignObject
from rayflight.labels import Owner
from rayflight.specs import ClusterSpec

JsonObject = dict[str, Any]


def reference(cluster: JsonObject) -> ClusterRef:
    """The stored RayCluster as it travels between tasks."""
    meta = cluster["metadata"]
    annotations = dict(meta.get("annotations") or {})
    return ClusterRef(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        owner=owner_of(cluster),
        annotations={key: value for key, value in annotations.items() if key.startswith(labels.PREFIX)},
        created_at=meta.get("creationTimestamp"),
    )


def owner_of(cluster: JsonObject) -> Owner | None:
    """Whose it says it is, or None when nobody of ours wrote that."""
    text = (cluster["metadata"].get("annotations") or {}).get(labels.OWNER)
    if not text:
        return None
    try:
        return Owner.from_dict(json.loads(text))
    except (TypeError, ValueError):
        return None


def check_ours(existing: JsonObject, spec: ClusterSpec, owner: Owner) -> None:
    """Adopt only what this very attempt made, from this very spec, and what is going to stay. Raises ForeignObject."""
    meta = existing["metadata"]
    theirs = owner_of(existing)
    if theirs != owner:
        why = f"it belongs to {_words(theirs)}" if theirs else f"it was not made by Rayflight ({_manager(meta)})"
        step = "delete it if nobody needs it, or use another namespace"
    elif meta.get("deletionTimestamp"):
        why = f"it is this attempt's, but on its way out since {meta['deletionTimestamp']}"
        step = "clear `plan`: a new attempt has a new name"
    elif (meta.get("labels") or {}).get(labels.SPEC_HASH) != spec.hash:
        why = "this attempt made it from another spec"
        step = "clear `plan`: a new attempt has a new name"
    else:
        return
    raise ForeignObject(
        "A RayCluster of that name exists:", which=f"{meta['namespace']}/{meta['name']}", why=why, next_step=step
    )


def _words(owner: Owner) -> str:
    return f"attempt {owner.attempt} of run {owner.run_id} of dag {owner.dag_id} in Airflow {owner.airflow}"


def _manager(meta: dict[str, Any]) -> str:
    managers = sorted({item.get("manager", "") for item in meta.get("managedFields") or ()} - {""})
    return f"written by {', '.join(managers)}" if managers else "no owner is noted on it"
