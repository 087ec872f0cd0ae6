"""docs/verification/ says what the code checks: a page per check, and a map whose checks exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rayflight.verification
from dev.verification_pages import FOLDER, pages
from rayflight.verification import verify_all
from rayflight.verification.catalogue import CHECKS
from rayflight.verification.outcome import DECIDED, MUST_BE_SEEN
from tests.unit.verification.probing import result, snapshot_with_store, spec

IDS = [check.id for check in CHECKS]
CODE = Path(rayflight.verification.__file__).parent


def ids_in_code() -> set[str]:
    """What stands as the id of a row: ``id="..."``, or the first argument of a function that makes rows."""
    found = set()
    for file in CODE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = [key.value for key in node.keywords if key.arg == "id"] if node.func.id == "Row" else []
            given += node.args[:1] if node.func.id in ("_each", "_floor") else []
            found |= {str(value.value) for value in given if isinstance(value, ast.Constant)}
    return found


def test_the_catalogue_has_exactly_the_checks_that_the_code_makes():
    assert sorted(IDS) == sorted(ids_in_code())
    assert len(set(IDS)) == len(IDS)


def test_the_catalogue_says_the_level_of_each_row():
    levels = {check.id: check.level for check in CHECKS}
    for row in verify_all(spec(), snapshot_with_store(), result()):
        assert levels[row.id] == row.level


def test_only_checks_that_exist_decide_or_must_be_seen():
    assert set(DECIDED) | set(MUST_BE_SEEN) <= set(IDS)


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_page_is_as_generated(name: str):
    assert (FOLDER / name).read_text() == pages()[name], "run python -m dev.verification_pages"


def test_there_is_no_page_besides():
    assert {path.name for path in FOLDER.glob("*.md")} - set(pages()) <= {"mapping.md", "measured.md"}


def test_every_line_of_the_map_names_checks_that_exist():
    rows = [line for line in (FOLDER / "mapping.md").read_text().splitlines() if line.startswith("|")][2:]
    assert rows
    for row in rows:
        named = re.findall(r"\[([\w-]+)\]\(([\w-]+)\.md\)", row.split("|")[3])
        assert named, row
        for text, target in named:
            assert text == target
            assert text in IDS, row
