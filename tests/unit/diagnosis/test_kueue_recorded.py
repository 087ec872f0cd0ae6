"""What the real Kueue 0.17 said of real clusters: each recorded answer has its one cause, its numbers and its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from rayflight.diagnosis import decisive, diagnose
from rayflight.snapshot.assemble import assemble
from rayflight.snapshot.model import Snapshot
from tests.perturb import Seen
from tests.unit.diagnosis.asking import falls_silent

FOLDER = Path(__file__).parents[2] / "fixtures" / "kueue"

# file: (cause, decision while nothing runs on it, what is said)
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "behind-another": (
        "kueue-waits-for-quota",
        "wait",
        ("at position 2 of ClusterQueue team-a-gpus", "2 more needed", "held by RayCluster a", "2 of 2 nvidia.com/gpu"),
    ),
    "behind-two": ("kueue-waits-for-quota", "wait", ("behind RayCluster c-foo, RayCluster b", "1 more needed")),
    "never-fits": ("kueue-never-fits", "fail", ("current podset request (3) > maximum capacity (2)",)),
    "head-never-fits": ("kueue-never-fits", "fail", ("pod set head", "cpu")),
    "two-flavors-never-fit": ("kueue-never-fits", "fail", ("flavor small", "flavor default-flavor")),
    "one-of-two-flavors-fits-later": ("kueue-waits-for-quota", "wait", ("2 more needed", "held by RayCluster t-first")),
    "one-flavor-unspoken-of": ("queued-by-kueue", "wait", ("untolerated taint",)),
    "resource-not-in-queue": ("kueue-resource-not-in-queue", "fail", ("example.com/foo",)),
    "local-queue-missing": ("kueue-local-queue-missing", "fail", ("LocalQueue nosuch doesn't exist",)),
    "cluster-queue-missing": ("kueue-cluster-queue-missing", "fail", ("no-such-cq",)),
    "cluster-queue-held": (
        "kueue-cluster-queue-held",
        "wait",
        ("Can't admit new workloads: is stopped.", "position 1"),
    ),
    "flavor-missing": ("kueue-flavor-missing", "fail", ("no-such-flavor",)),
    "local-queue-held": ("kueue-local-queue-held", "wait", ("LocalQueue lqheld is inactive",)),
    "namespace-not-selected": ("kueue-namespace-not-selected", "fail", ("selector",)),
    "no-workload": ("kueue-no-workload", "retry_after", ("nosuchclass",)),
    "preempted": ("kueue-preempted", "wait", ("for RayCluster high", "1 time(s)")),
    "preempted-back-in-line": ("kueue-preempted", "wait", ("back in the queue at position 1", "1 more needed")),
    "preemptor": ("kueue-waits-for-quota", "wait", ("Pending the preemption of 1 workload(s)", "RayCluster low")),
    "pods-ready-timeout": (
        "kueue-pods-ready-timeout",
        "wait",
        ("after 1 time-out(s)", "it comes back at 2026-12-01T13"),
    ),
    "given-up": ("kueue-deactivated", "fail", ("exceeding the maximum number of re-queuing retries",)),
    "kueue-down": ("kueue-down", "retry_after", ("does not let it go",)),
}


def recorded(name: str, **changes: Any) -> Snapshot:
    data = json.loads((FOLDER / f"{name}.json").read_text())
    empty: dict[str, Any] = {
        kind: {"items": []} for kind in ("nodes", "services", "resourcequotas", "persistentvolumeclaims")
    }
    raw = {**empty, "foreign_pods": {"items": []}, **data["raw"], **changes}
    return assemble(raw, namespace=data["namespace"], name=data["name"], taken_at=data["taken_at"])


def test_every_recording_is_judged():
    assert {path.stem for path in FOLDER.glob("*.json")} == {*CASES, "preempted-admitted-again"}


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_wait_has_its_cause(name: str):
    cause, decision, says = CASES[name]
    found = diagnose(recorded(name))
    assert found.cause is not None
    assert (found.cause.id, found.cause.decision) == (cause, decision)
    assert [words for words in says if words not in found.cause.summary] == [], found.cause.summary
    assert bool(decisive(found)) is (decision != "wait")


# Suspended with a queue label says "queued" by itself.
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] != "queued-by-kueue"])
def test_without_what_it_quotes_the_rule_is_silent(name: str):
    seen = Seen(now=recorded(name), noted={})
    found = diagnose(seen.now).cause
    assert found is not None
    falls_silent(seen, found)


@pytest.mark.parametrize("name", ["preempted", "preempted-back-in-line"])
def test_with_a_training_on_it_the_same_ends_the_training(name: str):
    found = diagnose(recorded(name), session="session_1", submission="rf-1")
    assert found.cause is not None
    assert (found.cause.id, found.cause.decision, found.cause.retry_after) == ("kueue-preempted", "retry_after", 10.0)
    assert "The training was not at fault" in found.cause.summary


def test_a_preemption_that_is_over_is_no_trouble_of_a_cluster_that_starts_again():
    found = diagnose(recorded("preempted-admitted-again"))
    assert not [item for item in (found.cause, *found.consequences) if item and item.id.startswith("kueue")]
    assert not decisive(found)


@pytest.mark.parametrize("name", ["behind-another", "cluster-queue-held"])
def test_without_the_visibility_api_only_the_place_is_missing(name: str):
    found = diagnose(recorded(name, pendingworkloads={"error": "the server is currently unable to handle the request"}))
    assert found.cause is not None
    assert found.cause.id == CASES[name][0]
    assert "position" not in found.cause.summary
    assert any("queue_places" in gap for gap in found.gaps)


def test_a_never_of_one_flavor_is_believed_where_the_cluster_queue_may_not_be_read():
    found = diagnose(recorded("never-fits", clusterqueues={"error": "forbidden"}))
    assert found.cause is not None
    assert found.cause.id == "kueue-never-fits"
