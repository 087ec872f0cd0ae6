"""Level 4: what the ranks need besides their devices, and what the probe leaves behind."""

from __future__ import annotations

import pytest

from tests.unit.verification.probing import COPY, GIB, device, rank, result, rows, verdicts

HEAD = rank(0)["head"]
PLACE = "rank 1 in pod flight-gpu-worker-2 on node gpu-2: "


@pytest.mark.parametrize(
    ("row", "changes", "words"),
    [
        ("head-reachable", {"head": {**HEAD, "addresses": [], "error": "x cannot be resolved: -2"}}, "cannot be resol"),
        ("head-reachable", {"head": {**HEAD, "reached": {"gcs": "timed out"}}}, "timed out"),
        ("disk-room", {"disk": {"total_bytes": 100 * GIB, "free_bytes": 2 * GIB}}, "2 GiB free of 100 GiB: 98% used"),
        ("disk-room", {"disk": {"error": "no such file"}}, "no such file"),
        ("shared-memory-written", {"shared_memory": {"ok": False, "error": "No space left"}}, "No space left"),
    ],
)
def test_one_pod_with_bad_surroundings_is_named(row, changes, words):
    (check,) = rows(row, probed=result(rank(0), rank(1, **changes)))
    assert check.verdict == ("warned" if row == "disk-room" else "failed")
    assert check.observed.startswith(PLACE)
    assert words in check.observed
    assert check.facts["node"] == "gpu-2"


@pytest.mark.parametrize("key", ["head", "disk", "shared_memory"])
def test_what_one_rank_did_not_tell_is_not_checked(key):
    row = {"head": "head-reachable", "disk": "disk-room", "shared_memory": "shared-memory-written"}[key]
    assert verdicts(row, probed=result(rank(0), rank(1, **{key: None}))) == ["unknown"]


def test_ports_that_training_does_not_need_are_said_and_do_not_fail():
    closed = {**HEAD, "reached": {"gcs": None, "dashboard": "refused"}}
    (row,) = rows("head-reachable", probed=result(rank(0, head=closed), rank(1)))
    assert row.verdict == "passed"
    assert "not reached: dashboard: refused" in row.observed


@pytest.mark.parametrize(
    ("offset", "error", "verdict"),
    [(0.5, 0.01, "passed"), (-3.0, 0.01, "warned"), (3.0, 2.5, "passed"), (-400.0, 0.0, "failed")],
)
def test_clocks_are_compared_within_the_error_of_the_measurement(offset, error, verdict):
    probed = result(rank(0), rank(1, clock={"offset_seconds": offset, "error_seconds": error}))
    assert verdicts("clocks-agree", probed=probed) == [verdict]


def test_a_rank_without_a_clock_is_not_checked():
    assert verdicts("clocks-agree", probed=result(rank(0), rank(1, clock=None))) == ["unknown"]


@pytest.mark.parametrize(
    "change", [{"torch": "2.8.0"}, {"python": "3.12.1"}, {"ray": "2.52.0"}, {"torch_cuda": "13.0"}]
)
def test_mixed_versions_fail_with_who_has_which(change):
    (row,) = rows("versions-alike", probed=result(rank(0), rank(1, **change)))
    assert row.verdict == "failed"
    assert next(iter(change.values())) in row.observed
    assert "rank 1 in pod flight-gpu-worker-2" in row.observed


@pytest.mark.parametrize(
    ("after", "verdict", "words"),
    [
        ({"held": [], "memory_free": {"GPU-1": 80 * GIB}}, "passed", "nothing"),
        ({"held": ["process 7 is held by the kernel (state D)"]}, "failed", "on node gpu-2: process 7 is held"),
        ({"held": [], "memory_free": {"GPU-1": 78 * GIB}}, "warned", "GPU-1 has 2 GiB less free memory than before"),
        ({"error": "did not answer within 15 s"}, "unknown", "could not"),
    ],
)
def test_what_the_probe_leaves_behind_is_said(after, verdict, words):
    probed = result(rank(0), rank(1), after={"ray-worker-uid-2": after})
    (row,) = rows("probe-left-nothing", probed=probed)
    assert row.verdict == verdict
    assert words in row.observed
    if verdict == "failed":
        assert "drain the node" in row.observed


def test_a_copy_that_fails_names_rank_node_and_gpu():
    broken = {"ok": False, "error": "byte 5 came back otherwise", "uuid": "1"}
    (row,) = rows("gpu-copy", probed=result(rank(0), rank(1, copy=broken)))
    assert row.verdict == "failed"
    assert row.observed == PLACE.removesuffix(": ") + ", GPU GPU-1: byte 5 came back otherwise"
    assert row.facts["gpu"] == "GPU-1"


@pytest.mark.parametrize("copy", [None, {"ok": None, "error": "libcuda.so.1 is not in the container"}])
def test_a_copy_that_was_not_made_is_not_checked(copy):
    assert verdicts("gpu-copy", probed=result(rank(0), rank(1, copy=copy))) == ["unknown"]


def test_a_rank_on_the_second_of_two_devices_is_told_apart():
    ranks = [
        rank(number, pod=rank(0)["pod"], ray_node_id="ray-worker-uid-1", gpu_ids=[number],
             devices=[device("GPU-0"), device("GPU-1")], copy={**COPY, "uuid": str(number)})
        for number in (0, 1)
    ]  # fmt: skip
    assert [row.facts["gpu"] for row in rows("compute", probed=result(*ranks))] == ["GPU-0", "GPU-1"]
