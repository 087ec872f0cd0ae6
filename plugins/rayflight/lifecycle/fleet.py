"""Keeps what a verification showed of each node, and reads it back. Append-only; nothing is decided from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rayflight.archive import Archive
from rayflight.backends.base import ClusterRef
from rayflight.findings import Check
from rayflight.fleet import LAST, Health, Occasion, history, records
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.snapshot.model import Snapshot

FOLDER = "fleet"  # below the archive's base: over all DAGs and runs


async def remember(
    tools: Tools,
    flight: Flight,
    ref: ClusterRef,
    snapshot: Snapshot,
    checks: Sequence[Check],
    result: Mapping[str, Any] | None,
) -> None:
    """One document per node of the cluster. A history that cannot be written fails no verification."""
    if tools.fleet is None:
        return
    occasion = Occasion(
        at=tools.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        cluster=ref.name,
        uid=ref.uid,
        dag_id=flight.owner.dag_id,
        run_id=flight.owner.run_id,
        shape=str(flight.spec.get("name") or ""),
        simulated=bool(flight.spec.get("simulated")),
    )
    nodes = {pod.name: pod.node or "" for pod in snapshot.workers()}
    try:
        for node, document in records(occasion, nodes, checks, result).items():
            data = json.dumps(document, sort_keys=True).encode()
            await tools.fleet.create(f"{FOLDER}/{node}/{occasion.file}", data)
    except Exception as error:  # noqa: BLE001 - every store's library has exceptions of its own
        tools.say("The history of the pool was not written to %s: %s", tools.fleet.url, error)


async def read_history(base: Archive, nodes: Iterable[str] = (), *, last: int = LAST) -> tuple[Health, ...]:
    """Every GPU of these nodes (all that are known, when none is named) over its last verifications."""
    documents = []
    for node in list(nodes) or await base.names(FOLDER):
        names = [name for name in await base.names(f"{FOLDER}/{node}") if name.endswith(".json")]
        for name in names[-last:]:
            data = await base.read(f"{FOLDER}/{node}/{name}")
            if data is not None:
                documents.append(json.loads(data))
    return history(documents, last=last)
