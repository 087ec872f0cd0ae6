"""Keeps what a verification showed of each node, and reads it back. Append-only; nothing is decided from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rayflight.archive import Archive
from rayflight.backends.base import ClusterRef
from rayflight.findings import Check
from rayflight.fleet import LAST, Health, Occasion, earlier, history, records, standing
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.snapshot.model import Snapshot
from rayflight.states import Verdict

_OTHERS, _FEW = 8, 5  # nodes besides the cluster's own whose last few verifications tell of the same product
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
    return history(await read_documents(base, nodes, last=last), last=last)


async def read_earlier(tools: Tools, nodes: Iterable[str]) -> Mapping[str, Any]:
    """What GPUs measured before: on these nodes, and their product on a few others. A store in trouble has nothing."""
    if tools.fleet is None:
        return {}
    try:
        known = set(await tools.fleet.names(FOLDER))
        ours = sorted(known & set(nodes))
        others = sorted(known - set(nodes))[:_OTHERS]
        found = [it for node in ours for it in await _of_node(tools.fleet, node, LAST)]
        found += [it for node in others for it in await _of_node(tools.fleet, node, _FEW)]
    except Exception as error:  # noqa: BLE001 - every store's library has exceptions of its own
        tools.say("Nothing is compared with earlier measurements: %s: %s", tools.fleet.url, error)
        return {}
    return earlier(found)


async def pool_state(
    base: Archive, *, shape: str = "", nodes: Sequence[str] = (), since: datetime, at_least: int = 1
) -> tuple[bool, str]:
    """Whether the newest verification of each node since then passed, on enough nodes; and why not."""
    stamp = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = standing(await read_documents(base, nodes), shape=shape, since=stamp)
    bad = [f"node {node} failed at {at}" for node, (verdict, at) in found.items() if verdict != Verdict.PASSED]
    missing = [f"node {node} was not verified since {stamp}" for node in nodes if node not in found]
    if not nodes and len(found) < at_least:
        missing.append(f"{len(found)} of {at_least} nodes were verified since {stamp}")
    why = "; ".join([*bad, *missing])
    return not why, why or f"good: {', '.join(sorted(found))}"


async def read_documents(base: Archive, nodes: Iterable[str] = (), *, last: int = LAST) -> list[Mapping[str, Any]]:
    """The newest documents of these nodes, or of all that are known when none is named."""
    named = list(nodes)
    lists = await asyncio.gather(*(_of_node(base, node, last) for node in named or await base.names(FOLDER)))
    return [document for documents in lists for document in documents]


async def _of_node(base: Archive, node: str, last: int) -> list[Mapping[str, Any]]:
    names = [name for name in await base.names(f"{FOLDER}/{node}") if name.endswith(".json")]
    read = await asyncio.gather(*(base.read(f"{FOLDER}/{node}/{name}") for name in names[-last:]))
    return [json.loads(data) for data in read if data is not None]
