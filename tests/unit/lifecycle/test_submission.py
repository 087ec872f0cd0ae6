"""A training is submitted exactly once, whatever was lost between asking and hearing the answer."""

from pathlib import Path

import pytest

from rayflight.errors import NotVerified
from rayflight.lifecycle import submission
from rayflight.lifecycle.submission import Submitted, submit_once
from rayflight.snapshot.model import Job
from rayflight.specs import JobSpec
from rayflight.states import JobStatus
from tests.world import Jobs, World, flight

JOB = JobSpec(entrypoint="python train.py", env={"LR": "0.1"})


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "_PAUSES", (0.0, 0.0))


@pytest.fixture
def world() -> World:
    world = World()
    world.hold(session=world.ray.session)
    return world


async def submit(
    world: World, folder: Path, *, try_number: int = 1, task: str = "flight.train", first_try: int = 0
) -> Submitted:
    ref, tries = world.clusters[0], {"try_number": try_number, "first_try": first_try}
    return await submit_once(world.tools(folder), flight(), ref, JOB, task=task, **tries)


async def test_the_first_submission_has_number_one(world: World, tmp_path: Path) -> None:
    submitted = await submit(world, tmp_path)
    assert (submitted.number, submitted.adopted, len(world.ray.submitted)) == (1, False, 1)


async def test_a_running_submission_is_adopted_by_a_retry(world: World, tmp_path: Path) -> None:
    first = await submit(world, tmp_path)
    world.ray.put(first.id, JobStatus.RUNNING)
    again = await submit(world, tmp_path, try_number=2)
    assert (again.id, again.adopted, len(world.ray.submitted)) == (first.id, True, 1)


async def test_a_lost_response_does_not_train_twice(world: World, tmp_path: Path) -> None:
    world.ray.lose_answer = True
    submitted = await submit(world, tmp_path)
    assert (submitted.adopted, len(world.ray.submitted)) == (True, 1)
    again = await submit(world, tmp_path, try_number=2)
    assert (again.adopted, len(world.ray.submitted)) == (True, 1)


async def test_a_response_lost_with_its_head_is_not_asked_for_again(world: World, tmp_path: Path) -> None:
    world.ray.lose_answer = True
    world.ray.after_lost_answer = world.ray.lose_head
    with pytest.raises(NotVerified):
        await submit(world, tmp_path)
    assert len(world.ray.submitted) == 1


async def test_a_succeeded_submission_is_not_trained_again(world: World, tmp_path: Path) -> None:
    first = await submit(world, tmp_path)
    world.ray.put(first.id, JobStatus.SUCCEEDED)
    assert (await submit(world, tmp_path, try_number=2)).id == first.id


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.STOPPED])
async def test_a_failed_submission_is_followed_by_the_next_number(
    world: World, tmp_path: Path, status: JobStatus
) -> None:
    first = await submit(world, tmp_path)
    world.ray.put(first.id, status)
    again = await submit(world, tmp_path, try_number=2)
    assert (again.number, again.adopted) == (2, False)
    assert again.id != first.id


@pytest.mark.parametrize(
    ("decision", "first_try", "trained_again"),
    [
        ("fail", 1, False),  # Airflow lost the failure, and retries what a retry cannot mend
        ("fail", 2, True),  # a person cleared the task
        ("retry_after", 1, True),
        (None, 1, True),
    ],
)
async def test_what_a_retry_cannot_mend_is_not_trained_again_unless_a_person_wants_it(
    world: World, tmp_path: Path, decision: str | None, first_try: int, trained_again: bool
) -> None:
    first = await submit(world, tmp_path)
    world.ray.put(first.id, JobStatus.FAILED)
    if decision:
        kept = {"cause": "entrypoint-failed", "decision": decision}
        await world.tools(tmp_path).archive.write_json(submission.verdict_file(flight(), first.id), kept)
    again = await submit(world, tmp_path, try_number=2, first_try=first_try)
    assert (again.id != first.id, again.adopted) == (trained_again, not trained_again)
    assert len(world.ray.submitted) == 1 + trained_again


async def test_a_restart_in_mid_try_follows_its_own_failed_submission(world: World, tmp_path: Path) -> None:
    first = await submit(world, tmp_path)
    world.ray.put(first.id, JobStatus.FAILED)
    assert (await submit(world, tmp_path, try_number=1)).id == first.id


async def test_two_trainings_on_one_cluster_do_not_adopt_each_other(world: World, tmp_path: Path) -> None:
    first = await submit(world, tmp_path, task="a")
    second = await submit(world, tmp_path, task="b")
    assert first.id != second.id
    assert len(world.ray.submitted) == 2


async def test_two_racing_submitters_make_one_job(world: World, tmp_path: Path) -> None:
    first = await submit(world, tmp_path)
    job = world.ray.table[first.id]
    world.ray.table = {}

    class Late(Jobs):  # the list was read before the other submitter came
        async def list(self) -> tuple[Job, ...]:
            self.table = {job.id: job}
            return ()

    world.ray.__class__ = Late
    second = await submit(world, tmp_path)
    assert (second.id, second.adopted) == (first.id, True)


async def test_a_cluster_whose_head_was_lost_is_refused(world: World, tmp_path: Path) -> None:
    world.ray.lose_head()
    with pytest.raises(NotVerified, match=r"session_2 was not seen ready.*Next: clear `provision` with downstream"):
        await submit(world, tmp_path)
    assert world.ray.submitted == []


async def test_every_script_learns_its_run_and_interval(world: World, tmp_path: Path) -> None:
    await submit(world, tmp_path)
    env = world.ray.submitted[0].runtime_env["env_vars"]
    assert env["LR"] == "0.1"
    assert (env["RAYFLIGHT_RUN_ID"], env["RAYFLIGHT_ATTEMPT"], env["RAYFLIGHT_SUBMISSION"]) == ("run-1", "1", "1")


async def test_workers_listen_to_a_signal_only_where_the_job_wants_it(world: World, tmp_path: Path) -> None:
    await submit(world, tmp_path)
    wanted = JOB.model_copy(update={"stack_signal": True})
    await submit_once(world.tools(tmp_path), flight(), world.clusters[0], wanted, task="other", try_number=1)
    plain, hooked = (item.runtime_env for item in world.ray.submitted)
    assert {"py_modules", "worker_process_setup_hook"}.isdisjoint(plain)
    assert hooked["worker_process_setup_hook"] == "rayflight_probe.hook.register"
    (uri,) = hooked["py_modules"]
    assert uri.removeprefix("gcs://") in world.ray.packages
