"""Never can fit is told from not now by what every flavor of a resource group says, in Kueue's own words."""

import pytest

from rayflight.diagnosis.quota import Why, refusals, why_never
from rayflight.snapshot.surroundings import FlavorQuota

ABOVE = (
    "insufficient quota for {0} in flavor {1}, previously considered podsets requests (0) + current podset request (3) "
    "> maximum capacity (2)"
)
SHORT = "insufficient unused quota for {0} in flavor {1}, 2 more needed"
GPU, CPU = "nvidia.com/gpu", "cpu"


def says(*reasons: str, pod_set: str = "gpu") -> str:
    return f"couldn't assign flavors to pod set {pod_set}: {', '.join(reasons)}"


@pytest.mark.parametrize(
    ("message", "never"),
    [
        (says(SHORT.format(GPU, "a")), None),
        (says(ABOVE.format(GPU, "a")), Why.CAPACITY),
        (says(ABOVE.format(GPU, "a"), SHORT.format(GPU, "b")), None),
        (says(ABOVE.format(GPU, "a"), ABOVE.format(GPU, "b")), Why.CAPACITY),
        (says(ABOVE.format(CPU, "a"), SHORT.format(GPU, "a")), Why.CAPACITY),
        (says("resource example.com/foo unavailable in ClusterQueue"), Why.UNKNOWN),
        (says("flavor a doesn't match node affinity"), Why.PLACE),
        (says("flavor a doesn't match node affinity", SHORT.format(GPU, "b")), None),
        (says("untolerated taint {gpu  NoSchedule <nil>} in flavor a", ABOVE.format(GPU, "b")), Why.CAPACITY),
        (f"{says(SHORT.format(CPU, 'a'), pod_set='head')}; {says(ABOVE.format(GPU, 'a'))}", Why.CAPACITY),
        (says("insufficient quota for cpu in flavor a, request > maximum capacity (10 > 8)"), Why.CAPACITY),
        (says("insufficient quota for cpu in flavor a in ClusterQueue"), Why.CAPACITY),
        (says("insufficient unused quota in cohort for cpu in flavor a, 1 more needed"), None),
        ("Workload has failed admission checks", None),
    ],
)
def test_one_flavor_that_only_others_hold_is_enough_to_wait_for(message, never):
    assert why_never(refusals(message), ()) is never


def test_a_group_of_its_own_that_refuses_for_good_is_not_mended_by_another_groups_flavor():
    message = says(ABOVE.format(CPU, "small"), SHORT.format(GPU, "a"))
    quotas = (
        FlavorQuota(flavor="small", resource=CPU, nominal="2", group=0),
        FlavorQuota(flavor="a", resource=GPU, nominal="2", group=1),
    )
    assert why_never(refusals(message), ()) is None
    assert why_never(refusals(message), quotas) is Why.CAPACITY


def test_a_flavor_of_which_kueue_said_nothing_this_time_may_still_do():
    quotas = tuple(FlavorQuota(flavor=name, resource=GPU, nominal="2") for name in ("a", "b"))
    assert why_never(refusals(says(ABOVE.format(GPU, "a"))), quotas) is None
    assert why_never(refusals(says(ABOVE.format(GPU, "a"), "flavor b doesn't match node affinity")), quotas)


def test_the_numbers_are_read_per_pod_set():
    first, second = refusals(f"{says(ABOVE.format(CPU, 'a'), pod_set='head')}; {says(SHORT.format(GPU, 'a'))}")
    assert (first.pod_set, first.amount, first.capacity) == ("head", "3", "2")
    assert (second.pod_set, second.resource, second.amount) == ("gpu", GPU, "2")
