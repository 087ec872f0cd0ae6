"""When a cluster outlives its run, and for how long."""

from datetime import timedelta

import pytest

from rayflight.errors import InvalidSpec
from rayflight.specs import TeardownMode, TeardownPolicy


def test_the_default_keeps_nothing():
    policy = TeardownPolicy()
    assert (policy.mode, policy.keeps(failed=True), policy.keeps(failed=False)) == (TeardownMode.ALWAYS, False, False)


@pytest.mark.parametrize("data", ["on_success", {"mode": "keep_on_failure", "keep_for": "2h"}])
def test_only_a_failure_is_kept(data):
    policy = TeardownPolicy.parse(data)
    assert (policy.keeps(failed=True), policy.keeps(failed=False)) == (True, False)


def test_keep_for_is_a_span():
    assert TeardownPolicy.parse({"mode": "keep_on_failure", "keep_for": "2h"}).keep_for == timedelta(hours=2)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("sometimes", "should be 'always', 'on_success' or 'keep_on_failure', got 'sometimes'"),
        ("keep_on_failure", "keep_on_failure needs keep_for, for example keep_for: 2h"),
        ({"keep_for": "2h"}, "keep_for has no meaning with always"),
        ({"mode": "keep_on_failure", "keep_for": "8d"}, "is longer than 7 days"),
        ({"mode": "keep_on_failure", "keep_for": "-1s"}, "keep_for: '-1s' is no span of time"),
    ],
)
def test_bad_policy_is_refused(data, sentence):
    with pytest.raises(InvalidSpec) as refused:
        TeardownPolicy.parse(data)
    assert sentence in str(refused.value)
