"""What many verifications say of one GPU."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rayflight.archive import Archive
from rayflight.fleet import Occasion, history, records
from rayflight.lifecycle.fleet import pool_state, read_history, remember
from tests.unit.alerts.faults import check
from tests.unit.verification.probing import device
from tests.world import World, flight

NODES = {"w-1": "gpu-1", "w-2": "gpu-2"}


def occasion(night: int) -> Occasion:
    return Occasion(at=f"2026-11-{night:02d}T03:00:00Z", cluster="rf-1", uid=f"u{night}", dag_id="pool", run_id="r")


def rank(number: int, gbps: float = 24.0) -> dict[str, Any]:
    return {
        "rank": number,
        "pod": f"w-{number + 1}",
        "gpu_ids": ["0"],
        "devices": [device(f"GPU-{number + 1}")],
        "copy": {"ok": True, "to_device_gbps": gbps, "capability": "8.0"},
        "compute": {"device": "cuda:0", "seconds": 0.2, "formats": {"bf16": {"tflops": 240.0, "ok": True}}},
        "collective": None,
    }


def night(number: int, *, bad: bool = False, gbps: float = 24.0) -> list[dict[str, Any]]:
    rows = [check(facts={"pod": "w-1", "rank": 0})] if bad else []
    made = records(occasion(number), NODES, rows, {"ranks": [rank(0, gbps), rank(1)]})
    return list(made.values())


def test_a_failure_is_charged_to_the_gpu_of_the_rank_that_failed() -> None:
    first, second = night(1, bad=True)
    assert (first["node"], first["verdict"], first["failed"]) == ("gpu-1", "failed", ["compute"])
    assert first["gpus"][0]["uuid"] == "GPU-1"
    assert (second["verdict"], second["gpus"][0]["verdict"]) == ("passed", "passed")


def test_of_two_gpus_in_one_pod_only_the_bad_one_is_charged() -> None:
    ranks = [{**rank(number), "pod": "w-1"} for number in (0, 1)]
    first, _ = records(occasion(1), NODES, [check(facts={"pod": "w-1", "rank": 1})], {"ranks": ranks}).values()
    assert {gpu["uuid"]: gpu["verdict"] for gpu in first["gpus"]} == {"GPU-1": "passed", "GPU-2": "failed"}


def test_figures_are_those_with_a_unit() -> None:
    assert night(1)[0]["gpus"][0]["figures"] == {"copy.to_device_gbps": 24.0, "compute.bf16.tflops": 240.0}


def test_a_gpu_that_fails_and_slows_down_is_said_first_and_in_one_sentence() -> None:
    nights = [night(n, bad=n in (3, 9, 15)) for n in range(1, 20)] + [night(20, gbps=19.7)]
    worst, healthy = history(row for rows in nights for row in rows)
    assert worst.sentence() == (
        "GPU-1 on node gpu-1 failed 3 of the last 20 (compute 3 times); copy.to_device_gbps fell by 18 %"
    )
    assert worst.last_failed_at == "2026-11-15T03:00:00Z"
    assert (healthy.failed, healthy.worrying) == (0, False)


def test_only_the_last_verifications_count() -> None:
    nights = [night(n, bad=n == 1) for n in range(1, 8)]
    assert [it.failed for it in history((row for rows in nights for row in rows), last=3)] == [0, 0]


def test_two_earlier_figures_are_no_trend() -> None:
    nights = [night(1), night(2), night(3, gbps=2.0)]
    assert history(row for rows in nights for row in rows)[0].changes == {}


def test_a_row_over_the_whole_cluster_blames_no_node() -> None:
    made = records(occasion(1), NODES, [check(id="collective", facts={})], {"ranks": [rank(0)]})
    assert [document["verdict"] for document in made.values()] == ["passed", "passed"]


def test_a_node_whose_probe_said_nothing_stands_for_itself() -> None:
    rows = [check(id="gpu-count", facts={"pod": "w-1", "node": "gpu-1"})]
    (first, _) = history(records(occasion(1), NODES, rows, None).values())
    assert first.sentence() == "node gpu-1 failed 1 of the last 1 (gpu-count once)"


async def test_documents_are_appended_per_node_and_read_back(tmp_path: Path) -> None:
    base = Archive(tmp_path, url="")
    for number in (1, 2):
        for document in night(number, bad=True):
            await base.write_json(f"fleet/{document['node']}/{occasion(number).file}", document)
    assert [it.failed for it in await read_history(base)] == [2, 0]
    assert [it.node for it in await read_history(base, ["gpu-2"])] == ["gpu-2"]


@pytest.mark.parametrize("kept", [True, False])
async def test_a_verification_leaves_its_documents_and_a_store_in_trouble_fails_nothing(
    kept: bool, tmp_path: Path
) -> None:
    world, base = World(), tmp_path / "base"
    if not kept:
        base.write_text("in the way")
    tools = replace(world.tools(tmp_path / "run"), fleet=Archive(base, url="file:///base"))
    await remember(tools, flight(), world.hold(), world.seen, (), None)
    if kept:
        assert [it.node for it in await read_history(Archive(base, url=""))] == ["gpu-1", "gpu-2"]
    else:
        assert "history of the pool was not written" in world.said[0]


async def kept(base: Archive, *documents: dict[str, Any]) -> None:
    for document in documents:
        await base.write_json(f"fleet/{document['node']}/{document['at'].replace(':', '')}-x.json", document)


SINCE = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("asked", "good", "words"),
    [
        ({}, False, "node gpu-1 failed at 2026-11-04T03:00:00Z"),
        ({"nodes": ["gpu-2"]}, True, "good: gpu-2"),
        ({"nodes": ["gpu-2", "gpu-9"]}, False, "node gpu-9 was not verified since 2026-11-02T00:00:00Z"),
        ({"nodes": ["gpu-2"], "since": datetime(2026, 11, 5, tzinfo=UTC)}, False, "gpu-2 was not verified since"),
        ({"shape": "other"}, False, "0 of 1 nodes were verified"),
    ],
)
async def test_a_pool_is_good_when_the_newest_verification_of_each_node_passed(
    asked: dict[str, Any], good: bool, words: str, tmp_path: Path
) -> None:
    base = Archive(tmp_path, url="")
    await kept(base, *night(1, bad=True), *night(3), *night(4, bad=True))
    found, why = await pool_state(base, **{"since": SINCE, **asked})
    assert found is good
    assert words in why


async def test_a_pool_that_failed_once_is_good_again_after_it_passed(tmp_path: Path) -> None:
    base = Archive(tmp_path, url="")
    await kept(base, *night(3, bad=True), *night(4))
    assert await pool_state(base, since=SINCE, at_least=2) == (True, "good: gpu-1, gpu-2")
    assert (await pool_state(base, since=SINCE, at_least=3))[0] is False
