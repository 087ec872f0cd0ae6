"""Where the ranks go, out of what Ray says about its nodes."""

from __future__ import annotations

from typing import Any

from rayflight.probe.placement import seats


def node(name: str, *, gpus: int = 0, head: bool = False, alive: bool = True) -> dict[str, Any]:
    resources = {
        "CPU": 1.0,
        **({"GPU": float(gpus)} if gpus else {}),
        **({"node:__internal_head__": 1.0} if head else {}),
    }
    return {"NodeID": name, "NodeManagerAddress": f"10.0.0.{name[-1]}", "Alive": alive, "Resources": resources}


def test_every_gpu_has_a_seat() -> None:
    found = seats([node("head0", head=True), node("w2", gpus=1), node("w1", gpus=2)])
    assert [(seat.node_id, seat.gpu) for seat in found] == [("w1", True), ("w1", True), ("w2", True)]


def test_a_worker_without_gpus_has_one_seat() -> None:
    found = seats([node("head0", head=True), node("w1"), node("w2", gpus=1)])
    assert [(seat.node_id, seat.gpu) for seat in found] == [("w1", False), ("w2", True)]


def test_a_dead_node_has_none() -> None:
    assert [seat.node_id for seat in seats([node("w1", gpus=1, alive=False), node("w2", gpus=1)])] == ["w2"]


def test_no_rank_sits_on_a_head_that_offers_gpus_beside_workers() -> None:
    found = seats([node("head0", gpus=1, head=True), node("w1", gpus=1), node("w2")])
    assert [seat.node_id for seat in found] == ["w1", "w2"]


def test_a_head_with_gpus_that_stands_alone_is_probed() -> None:
    assert [seat.gpu for seat in seats([node("head0", gpus=2, head=True)])] == [True, True]


def test_a_head_alone_is_better_than_nothing() -> None:
    assert [(seat.node_id, seat.gpu) for seat in seats([node("head0", head=True)])] == [("head0", False)]
