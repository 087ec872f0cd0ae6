"""Code and pages do not differ, and ids never change their meaning silently."""

from dev.diagnosis_pages import FOLDER, differences
from rayflight.diagnosis.kinds import KINDS


def test_the_pages_are_as_the_code_says():
    assert differences() == [], "run `make docs`"


def test_every_kind_says_all_that_a_page_needs():
    for kind in KINDS.values():
        assert kind.id == kind.id.lower().replace(" ", "-")
        assert all((kind.title, kind.sign, kind.cause, kind.next_step, kind.decisions)), kind.id
        assert not kind.title.endswith("."), kind.id


def test_the_index_names_every_page():
    index = (FOLDER / "index.md").read_text()
    assert all(f"({name}.md)" in index for name in KINDS)
