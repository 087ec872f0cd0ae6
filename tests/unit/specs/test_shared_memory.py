"""Pages in /dev/shm count against the memory limit: what cannot fit is warned of."""

import pytest

from rayflight.specs import ClusterSpec


def warnings(**pod: object) -> list[str]:
    spec = ClusterSpec.parse({"image": "x", "groups": [{"name": "gpu", "gpus": 1, **pod}]})
    return spec.warnings()


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"memory": "8Gi", "shm_size": "8Gi"}, "may grow to 8 GiB and the heap needs 2 GiB"),
        ({"memory": "8Gi", "shm_size": "16Gi"}, "more than the memory limit of 8 GiB"),
        ({"memory": "8Gi", "shm_size": "1Gi"}, "object store of 2.4 GiB is larger than /dev/shm of 1 GiB"),
        (
            {"memory": "8Gi", "shm_size": "4Gi", "ray_start_params": {"memory": str(5 * 1024**3)}},
            "may grow to 4 GiB and the heap needs 5 GiB",
        ),
        ({"memory": "8Gi", "ray_start_params": {"object-store-memory": str(7 * 1024**3)}}, "may grow to 7 GiB"),
        ({"memory": None}, "no memory limit"),
    ],
)
def test_memory_that_cannot_fit_is_warned_of(pod, words):
    assert [words in warning for warning in warnings(**pod)] == [True]


@pytest.mark.parametrize(
    "pod", [{"memory": "8Gi"}, {"memory": "8Gi", "shm_size": "4Gi"}, {"memory": "32Gi", "shm_size": "12Gi"}]
)
def test_memory_that_fits_is_not_warned_of(pod):
    assert warnings(**pod) == []


def test_range_without_autoscaler_is_warned_of():
    assert "without an autoscaler it stays at 1" in warnings(min_replicas=0, max_replicas=4)[0]


def test_required_spread_over_unnamed_nodes_is_warned_of():
    assert "spread is required without node_selector" in warnings(spread="required")[0]
    assert warnings(spread="required", node_selector={"pool": "gpu"}) == []
