"""A drill is right only when everything is: cause, decision, retry, alert, time, nothing left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dev.drills.results import Answer, Row, judged, load, save, shown, summary
from dev.drills.table import Drill

DRILL = Drill(name="head-lost", sign="Pod", cause=("head-pod-lost",), decision="retry_elsewhere")
GOOD = Answer(
    error="JobFailed",
    cause="head-pod-lost",
    decision="retry_elsewhere",
    text="the head is gone",
    decided=104.0,
    told=107.0,
    retried=True,
    alerted=True,
)


def row(drill: Drill = DRILL, sign: tuple[float, str] | None = (100.0, "Pod gone"), **changes) -> Row:
    return judged(drill, replace(GOOD, **changes), provoked=99.0, sign=sign)


def test_a_good_answer_has_nothing_wrong_and_its_seconds():
    assert row().wrong == ()
    assert row().seconds == 4.0


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"cause": "gcs-died"}, "cause gcs-died, expected head-pod-lost"),
        ({"decision": "fail"}, "decision fail, expected retry_elsewhere"),
        ({"retried": False}, "not retried"),
        ({"alerted": False}, "no alert"),
        ({"left": ["pod a"]}, "left behind: pod a"),
        ({"error": "", "cause": ""}, "no verdict"),
        ({"sign": None}, "the observer saw no sign"),
    ],
)
def test_each_fault_of_an_answer_is_told(changes: dict, wrong: str):
    assert wrong in " / ".join(row(**changes).wrong)


def test_a_user_error_that_was_retried_is_wrong():
    user = Drill(name="exit", sign="x", cause=("entrypoint-failed",), decision="fail")
    assert row(user, cause="entrypoint-failed", decision="fail").wrong == ("retried",)


def test_an_error_without_a_finding_counts_by_its_kind_and_decides_to_fail():
    refused = Drill(name="spec", sign="x", cause=("InvalidSpec",), decision="fail", says="min_replicas")

    def wrong(text: str) -> tuple[str, ...]:
        return row(refused, error="InvalidSpec", cause="", decision="", retried=False, text=text).wrong

    assert wrong("min_replicas 3") == ()
    assert wrong("something else") == ("the message lacks 'min_replicas': something else",)


def test_a_drill_that_must_end_well_is_wrong_when_it_fails_or_proves_nothing():
    well = Drill(name="survives")
    assert row(well, error="", cause="", decision="", retried=None, alerted=False).wrong == ()
    assert "nothing should fail" in row(well).wrong[0]
    assert row(well, error="", cause="", retried=None, proof="never scaled up").wrong == ("never scaled up",)


def test_figures_are_kept_of_drills_that_were_not_flown_again(tmp_path):
    file = tmp_path / "figures.json"
    save(file, [row(), replace(row(), drill="other", sign=None)])
    every = save(file, [row(decided=110.0)])
    assert [(it.drill, it.seconds) for it in every] == [("head-lost", 10.0), ("other", None)]
    assert load(file) == every


def test_the_summary_has_median_worst_and_who_was_retried_against_the_rules():
    slow = replace(row(decided=106.0), drill="slow", decision="fail")
    figures = summary([row(), slow])
    assert (figures["median"], figures["worst"]) == (5.0, 6.0)
    assert figures["user_errors_retried"] == ["slow"]
    assert figures["capacity_not_retried"] == []
    assert figures["slower_than_20_s"] == []
    assert summary([row(decided=121.0)])["slower_than_20_s"] == ["head-lost"]
    assert summary([])["median"] is None


def test_the_table_tells_what_is_wrong_below_it():
    text = shown([row(), row(left=["pod a"])])
    assert "head-pod-lost" in text
    assert text.splitlines()[-1] == "head-lost: left behind: pod a"
