"""Every kind of finding has an example in which its rule speaks, and is silent without what it quotes (``asked``)."""

import pytest

from rayflight.diagnosis.catalogue import RULES
from rayflight.diagnosis.kinds import KINDS
from tests.examples import EXAMPLES
from tests.unit.diagnosis.asking import found, ids


def test_every_rule_has_a_page_and_every_page_a_rule():
    assert {name for rule in RULES for name in rule.ids} == set(KINDS)


def test_every_kind_has_an_example():
    assert set(EXAMPLES) == set(KINDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rule_speaks_where_its_sign_is_and_is_silent_without(name):
    example = EXAMPLES[name]
    finding = found(example.seen, **example.noted)[name]
    for words in example.says:
        assert words in finding.summary


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_is_about_nothing_else_that_comes_first(name):
    """The kind is the cause, or follows from it, or stands beside it: it is never lost."""
    example = EXAMPLES[name]
    assert name in ids(example.seen, **example.noted)
