"""The matrix for people: problems first, readable at 120 columns, nothing lost."""

from __future__ import annotations

from dataclasses import replace

from rayflight.verification import table, verify_all
from tests.unit.verification.probing import rank, result, snapshot_with_store, spec

CHECKS = verify_all(spec(), snapshot_with_store(), result(rank(0), rank(1, devices=[], devices_error="no driver")))


def test_no_line_is_wider_than_a_terminal_and_problems_come_first() -> None:
    found = list(table.lines(CHECKS))
    assert max(map(len, found)) <= 120
    assert found[0].split() == ["VERDICT", "CHECK", "SUBJECT", "OBSERVED"]
    assert found[1].startswith("FAILED       3 gpu-count               pod flight-gpu-worker-2 on node     pod limit 1")
    assert found[-1] == table.summary(CHECKS)
    assert found[-1].startswith("1 failed, ")


def test_a_problem_says_what_was_expected_and_why_and_a_row_that_passed_does_not() -> None:
    text = " ".join(" ".join(table.lines(CHECKS)).split())
    assert "expected 1 GPU: pod limit" in text.replace("(no driver);", "")
    assert "(no driver)" in text
    assert "expected Ready" not in text


def test_every_row_stands_in_both_forms() -> None:
    whole, report = "\n".join(table.lines(CHECKS)), table.markdown(CHECKS)
    for check in CHECKS:
        assert check.id in whole
        assert f"| {check.id} |" in report


def test_text_of_others_breaks_no_table() -> None:
    odd = replace(CHECKS[0], observed="a | b\nc " + "x" * 1000, verdict="failed")
    (row,) = [line for line in table.markdown([odd]).splitlines() if odd.id in line]
    assert "a \\| b c xxx" in row
    assert len(row) < 900
