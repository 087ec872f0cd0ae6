"""Quantities as Kubernetes means them, and overrides of objects."""

from decimal import Decimal

import pytest

from rayflight.specs.merge import merge
from rayflight.specs.units import amount, gib, in_bytes


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("500m", Decimal("0.5")),
        ("2", Decimal(2)),
        (".5", Decimal("0.5")),
        ("1.5Gi", Decimal(3 * 2**29)),
        ("3k", Decimal(3000)),
    ],
)
def test_quantity_means_what_kubernetes_means(written, meant):
    assert amount(written) == meant


@pytest.mark.parametrize("written", ["", "-1", "4GB", "1 Gi", "Gi", "1e3x", "0x10"])
def test_what_is_no_quantity_is_refused(written):
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        amount(written)


def test_bytes_are_whole_and_shown_in_gib():
    assert (in_bytes("1Mi"), gib(3 * 2**29)) == (2**20, "1.5 GiB")


def test_named_items_merge_and_others_are_replaced():
    base = {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "args": ["x", "y"],
        "deep": {"a": 1, "b": 2},
    }
    changes = {"env": [{"name": "B", "value": "3"}, {"name": "C"}], "args": ["z"], "deep": {"b": None}}
    assert merge(base, changes) == {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C"}],
        "args": ["z"],
        "deep": {"a": 1},
    }


def test_one_volume_mounted_twice_stays_mounted_twice():
    mounts = [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]
    change = [{"name": "data", "mountPath": "/b", "readOnly": True}]
    assert merge({"m": mounts}, {"m": change})["m"] == [mounts[0], change[0]]


def test_nothing_given_is_touched():
    base, changes = {"a": {"b": [1]}}, {"a": {"c": [2]}}
    merged = merge(base, changes)
    merged["a"]["b"].append(3)
    merged["a"]["c"].append(3)
    assert (base, changes) == ({"a": {"b": [1]}}, {"a": {"c": [2]}})


def test_items_that_no_name_tells_apart_are_replaced_as_a_whole():
    ports = [{"name": "dns", "protocol": "TCP"}, {"name": "dns", "protocol": "UDP"}]
    assert merge({"ports": ports}, {"ports": [{"name": "dns"}]}) == {"ports": [{"name": "dns"}]}
