"""One alert for one fault: within the window it is counted, after it said again, healed it is said once."""

from __future__ import annotations

from rayflight.alerts import Run, Success, claim, recover, unsaid
from rayflight.alerts.message import Kind
from tests.unit.alerts.faults import NOW, RUN, Memory, alert, later

PASSED = Success(run=RUN, passed=frozenset({("compute", "gpu-1")}))


async def test_a_fault_is_said_once_within_the_window_and_then_with_its_count() -> None:
    store = Memory()
    assert (await claim(store, alert(), now=NOW)) is not None
    assert await claim(store, alert(), now=later(1)) is None
    assert await claim(store, alert(), now=later(59)) is None
    again = await claim(store, alert(), now=later(61))
    assert again is not None
    assert again.count == 4
    assert again.since == alert().since


async def test_another_run_that_meets_the_same_fault_says_nothing() -> None:
    store = Memory()
    await claim(store, alert(), now=NOW)
    assert await claim(store, alert(run=Run(dag_id="other", task_id="verify")), now=later(2)) is None


async def test_a_lost_race_is_decided_anew() -> None:
    store = Memory(losing=3)
    assert await claim(store, alert(), now=NOW) is not None
    assert await claim(store, alert(), now=later(1)) is None


async def test_a_store_that_never_lets_us_win_does_not_silence_the_alert() -> None:
    assert await claim(Memory(losing=1000), alert(), now=NOW) is not None


async def test_a_fault_that_no_channel_took_is_said_at_its_next_occurrence() -> None:
    store = Memory()
    await claim(store, alert(), now=NOW)
    await unsaid(store, alert().fingerprint)
    assert await claim(store, alert(), now=later(1)) is not None


async def test_the_same_check_passing_on_the_same_node_heals_and_is_said_once() -> None:
    store = Memory()
    await claim(store, alert(), now=NOW)
    (over,) = await recover(store, PASSED, now=later(30))
    assert over.kind is Kind.RECOVERY
    assert over.fingerprint == alert().fingerprint
    assert over.title.startswith("Good again")
    assert await recover(store, PASSED, now=later(31)) == ()


async def test_a_healed_fault_that_comes_back_is_a_new_alert() -> None:
    store = Memory()
    await claim(store, alert(), now=NOW)
    await recover(store, PASSED, now=later(5))
    back = await claim(store, alert(), now=later(10))
    assert back is not None
    assert back.count == 1


async def test_what_passed_elsewhere_heals_nothing() -> None:
    store = Memory()
    await claim(store, alert(), now=NOW)
    for passed in (("compute", "gpu-2"), ("gpu-count", "gpu-1")):
        assert await recover(store, Success(run=RUN, passed=frozenset({passed})), now=later(5)) == ()


async def test_a_fault_without_a_node_is_healed_by_its_own_task_or_its_whole_run() -> None:
    nowhere = alert(facts={}, id="collective")
    for run, heals in (
        (Run(dag_id="train", task_id="flight.verify"), True),
        (Run(dag_id="train"), True),
        (Run(dag_id="train", task_id="flight.plan"), False),
        (Run(dag_id="other", task_id="flight.verify"), False),
    ):
        store = Memory()
        await claim(store, nowhere, now=NOW)
        assert bool(await recover(store, Success(run=run), now=later(5))) is heals


async def test_a_fault_that_nobody_was_told_of_heals_in_silence() -> None:
    store = Memory()
    await claim(store, alert(), now=NOW)
    await unsaid(store, alert().fingerprint)
    assert await recover(store, PASSED, now=later(5)) == ()


async def test_a_fault_healed_long_ago_is_forgotten() -> None:
    store = Memory()
    await claim(store, alert(), now=NOW)
    await recover(store, PASSED, now=later(5))
    await recover(store, PASSED, now=later(60 * 25))
    assert store.values == {}
