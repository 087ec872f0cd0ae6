"""The training without PyTorch: its gradient is the gradient, and ranks that exchange it stay one model."""

from __future__ import annotations

import importlib
import threading
from types import ModuleType

import numpy as np
import pytest

from dev.airflow_home import ROOT


@pytest.fixture(scope="module")
def ddp() -> ModuleType:
    """A script beside another, not a package: both are found as Python finds them when it runs the script."""
    pytest.importorskip("ray.train")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "include" / "training"))
        return importlib.import_module("ddp_numpy")


def in_ranks(ddp: ModuleType, monkeypatch: pytest.MonkeyPatch, size: int, work):
    """Run ``work(rank, exchange)`` in as many threads as ranks; their results in order."""
    met, results = threading.Barrier(size), [None] * size
    told = []

    def broadcast(value):
        told.append(value) if value is not None else None
        met.wait(10)
        return told[0]

    monkeypatch.setattr(ddp, "broadcast_from_rank_zero", broadcast)
    monkeypatch.setattr(ddp.ray.util, "get_node_ip_address", lambda: "127.0.0.1")

    def run(rank: int) -> None:
        results[rank] = work(rank, ddp.Exchange(rank, size))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(result is not None for result in results)
    return results


def test_the_gradient_is_that_of_the_loss(ddp):
    network = ddp.Network(0)
    points, arms = ddp.ranks.spirals(16, 0)
    _, gradient = network.gradient(points, arms)
    start = network.parameters.copy()
    rng = np.random.default_rng(3)
    for _ in range(5):
        step = rng.standard_normal(len(start)) * 1e-6
        losses = []
        for sign in (1, -1):
            network.parameters = start + sign * step
            losses.append(network.gradient(points, arms)[0])
        assert (losses[0] - losses[1]) / 2 == pytest.approx(gradient @ step, rel=1e-3, abs=1e-10)


def test_ranks_get_the_mean_to_the_last_bit(ddp, monkeypatch):
    vectors = [np.random.default_rng(rank).standard_normal(1000) for rank in range(3)]
    found = in_ranks(ddp, monkeypatch, 3, lambda rank, exchange: exchange.mean(vectors[rank]))
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    assert found[0] == pytest.approx(sum(vectors) / 3)


def test_every_rank_hears_all_in_the_order_of_ranks(ddp, monkeypatch):
    found = in_ranks(ddp, monkeypatch, 3, lambda rank, exchange: exchange.gather(f"rank {rank}"))
    assert found == [["rank 0", "rank 1", "rank 2"]] * 3


def test_two_ranks_with_halves_of_the_data_learn_one_model(ddp, monkeypatch):
    points, arms = ddp.ranks.spirals(400, 1)

    def train(rank, exchange):
        network = ddp.Network(1)
        mine = slice(rank, None, 2)
        for _ in range(100):
            network.step(exchange.mean(network.gradient(points[mine], arms[mine])[1]))
        return network

    first, second = in_ranks(ddp, monkeypatch, 2, train)
    assert first.parameters.tobytes() == second.parameters.tobytes()
    held_out, truth = ddp.ranks.spirals(300, 2)
    assert (first.forward(held_out)[-1].argmax(axis=1) == truth).mean() > 0.8
