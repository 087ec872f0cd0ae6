"""The operator is missed when nothing was touched, and quoted when it refuses the spec by an event."""

from dataclasses import replace

import pytest

from rayflight.findings import Decision
from tests.made_up import at, cluster, event, gap, head, snapshot, worker
from tests.moments import moment
from tests.unit.diagnosis.asking import found, ids


def untouched(**changes):
    return snapshot(cluster=cluster(has_status=False, observed_generation=0), pods=(), ray=None, **changes)


def test_a_cluster_that_nobody_touched_for_ten_seconds_has_no_operator():
    finding = found(untouched())["operator-absent"]
    assert finding.decision is Decision.RETRY_AFTER
    assert "team-a/flight" in finding.summary


@pytest.mark.parametrize(
    "changes",
    [
        {"taken_at": at(9)},
        {"events": (event("CreatedService", "made", type="Normal"),)},
        {"gaps": gap("events")},
        {"gaps": gap("pods")},
    ],
)
def test_without_the_silence_nothing_is_said(changes):
    assert "operator-absent" not in ids(untouched(**changes))


def test_an_operator_that_wrote_a_status_is_there():
    assert "operator-absent" not in ids(replace(untouched(), cluster=cluster()))


def test_an_invalid_spec_is_quoted_from_its_event():
    told = event("InvalidRayClusterSpec", "worker group gpu has minReplicas 3 greater than maxReplicas 2")
    finding = found(untouched(events=(told,)))["cluster-spec-invalid"]
    assert finding.decision is Decision.FAIL
    assert "minReplicas 3" in finding.summary
    assert "operator-absent" not in ids(untouched(events=(told,)))


def test_a_spec_warning_is_no_refusal():
    told = event("InvalidRayClusterSpec", "RayCluster spec warning team-a/flight: deprecated")
    assert "cluster-spec-invalid" not in ids(untouched(events=(told,)))


def test_an_event_about_a_spec_that_was_corrected_since_is_stale():
    told = event("InvalidRayClusterSpec", "no")
    assert "cluster-spec-invalid" not in ids(snapshot(events=(told,)))


def test_an_event_of_an_earlier_cluster_of_the_same_name_does_not_count():
    told = event("InvalidRayClusterSpec", "no", uid="earlier")
    assert "cluster-spec-invalid" not in ids(untouched(events=(told,)))


def test_a_name_that_is_too_long_is_told_even_without_its_event():
    name = "x" * 54
    seen = replace(untouched(gaps=gap("events")), name=name, cluster=cluster(name=name, has_status=False))
    seen = replace(seen, cluster=replace(seen.cluster, observed_generation=0))
    assert "54 characters" in found(seen)["cluster-spec-invalid"].summary


def test_min_above_max_is_found_in_the_stored_spec():
    finding = found(moment("min-above-max-t004s"))["min-above-max"]
    assert finding.decision is Decision.FAIL
    assert "minReplicas 3 is greater than maxReplicas 2" in finding.summary
    assert "min-above-max" not in ids(moment("healthy-t027s"))


def test_a_lost_pod_that_nobody_replaces_tells_of_a_standing_operator():
    killed = event("Killing", "Stopping container", about=worker(2), type="Normal", last_at=at(40))
    seen = snapshot(pods=(head(), worker(1)), events=(killed,))
    finding = found(seen)["operator-standing-still"]
    assert "1 of 3 pods are missing" in finding.summary
    assert "operator-standing-still" not in ids(replace(seen, taken_at=at(45)))
    made = event("CreatedWorkerPod", "made", type="Normal", last_at=at(41))
    assert "operator-standing-still" not in ids(replace(seen, events=(killed, made)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("operator-paused-t005s", []),
        ("operator-paused-t041s", ["operator-absent"]),
        ("operator-paused-t015s", ["operator-standing-still", "worker-pod-lost"]),
    ],
)
def test_recorded_moments_of_a_paused_operator(name, expected):
    assert ids(moment(name)) == expected
