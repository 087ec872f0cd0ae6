"""A queued cluster says whom it waits for; one that Kueue takes ends its job at once and keeps its place."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rayflight.errors import Diagnosed, JobFailed, WaitTimedOut
from rayflight.findings import Decision
from rayflight.labels import READY_SESSION
from rayflight.lifecycle.ensure import Ensured, ensure, usable_cluster
from rayflight.lifecycle.following import Follower
from rayflight.lifecycle.ready import wait_ready
from rayflight.lifecycle.submission import submission_id
from rayflight.snapshot.model import Condition
from rayflight.snapshot.surroundings import Queue, QueuePlace, Workload
from rayflight.states import JobStatus, Stage
from tests.made_up import UID, at, cluster, head, snapshot, worker
from tests.world import SHAPE, World, flight

LABEL = {"kueue.x-k8s.io/queue-name": "gpus"}
QUEUED = flight(spec={**SHAPE, "queue": "gpus"})
FEW = "couldn't assign flavors to pod set gpu: insufficient unused quota for nvidia.com/gpu in flavor f, 1 more needed"
JOB = "rf-job-1"


def workload(*conditions: Condition, **changes: object) -> Workload:
    mine = {"name": "mine", "owner": UID, "owner_kind": "RayCluster", "owner_name": "flight", "queue": "gpus"}
    return Workload(conditions=conditions, **{**mine, **changes})  # type: ignore[arg-type]


def says(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, since=at(5))


WAITING = workload(says("QuotaReserved", "False", "Pending", FEW))
TAKEN = workload(
    says("Evicted", "True", "Preempted", "Preempted to accommodate a workload (UID: x, JobUID: other-uid)"),
    says("QuotaReserved", "True", "QuotaReserved", "Quota reserved"),
    evictions={"Preempted": 1},
)
OTHER = workload(
    says("QuotaReserved", "True", "QuotaReserved", ""), name="other", owner="other-uid", owner_name="other"
)
QUEUES = (Queue(kind="LocalQueue", name="gpus", cluster_queue="cq"), Queue(kind="ClusterQueue", name="cq"))
PLACES = tuple(QueuePlace(workload=name, in_cluster_queue=n, in_local_queue=0) for name, n in (("x", 1), ("mine", 2)))


def held(*loads: Workload, **changes: object) -> World:
    seen = snapshot(
        cluster=cluster(suspended=True, labels=LABEL), pods=(), ray=None, workloads=loads, queues=QUEUES, **changes
    )
    return World(seen=seen)


async def reach(world: World, folder: Path, stage: Stage = Stage.TRAIN, *, try_number: int = 2) -> Ensured:
    return await ensure(
        world.tools(folder), QUEUED, stage, try_number=try_number,
        deadline=world.time + timedelta(seconds=3), last_try=False,
    )  # fmt: skip


async def test_a_waiting_cluster_says_at_which_place_and_behind_whom(tmp_path: Path) -> None:
    world = held(WAITING, OTHER, queue_places=PLACES)
    ref = world.hold()
    world.steps = [lambda: None] * 9
    with pytest.raises(WaitTimedOut, match="1 more needed"):
        await wait_ready(world.tools(tmp_path), QUEUED, ref, deadline=world.time + timedelta(seconds=3))
    told = [line for line in world.said if line.startswith("Waiting")]
    assert len(told) == 1
    assert "at position 3 of ClusterQueue cq, behind x, 1 of other queues" in told[0]
    assert "quota is held by RayCluster other" in told[0]


async def test_a_cluster_that_waited_too_long_keeps_its_place_until_the_retry(tmp_path: Path) -> None:
    world = held(WAITING)
    world.hold()
    world.steps = [lambda: None] * 9
    with pytest.raises(Diagnosed):
        await reach(world, tmp_path, Stage.WAIT_READY, try_number=1)
    assert world.deleted == []


async def test_a_running_job_ends_with_its_cause_when_kueue_takes_the_cluster(tmp_path: Path) -> None:
    world = held(TAKEN, OTHER)
    ref = world.hold(session=world.ray.session)
    world.ray.put(JOB, JobStatus.RUNNING)  # Ray says so until its head's grace period is over
    follower = Follower(
        tools=world.tools(tmp_path), flight=QUEUED, ref=ref, submission_id=JOB, session=world.ray.session
    )
    with pytest.raises(JobFailed) as failed:
        await follower.follow()
    cause = failed.value.diagnosis.cause
    assert cause is not None
    assert (cause.id, cause.decision, cause.retry_after) == ("kueue-preempted", Decision.RETRY_AFTER, 10.0)
    assert "for RayCluster other" in cause.summary


async def test_the_same_when_nobody_answers_any_more(tmp_path: Path) -> None:
    world = held(TAKEN)
    ref = world.hold(session=world.ray.session)
    world.ray.silent = True
    follower = Follower(tools=world.tools(tmp_path), flight=QUEUED, ref=ref, submission_id=JOB, session="session_1")
    with pytest.raises(JobFailed, match="preempted"):
        await follower.follow()


async def test_pods_that_go_before_kueue_says_why_are_not_taken_for_a_lost_head(tmp_path: Path) -> None:
    flying, reserved = cluster(labels=LABEL), workload(OTHER.conditions[0])
    world = World(seen=snapshot(cluster=flying, workloads=(reserved,), queues=QUEUES))
    ref = world.hold(session=world.ray.session)
    world.ray.put(JOB, JobStatus.RUNNING)
    taken = replace(flying, suspended=True)
    going = (head(deleting_since=at(60)), worker(1, deleting_since=at(60)), worker(2, deleting_since=at(60)))

    def take() -> None:
        world.seen = replace(world.seen, cluster=taken, pods=going)

    def say() -> None:
        world.seen = replace(world.seen, workloads=(TAKEN,))

    world.steps = [*[lambda: None] * 4, take, *[lambda: None] * 2, say, *[lambda: None] * 4]
    follower = Follower(
        tools=world.tools(tmp_path), flight=QUEUED, ref=ref, submission_id=JOB, session=world.ray.session
    )
    with pytest.raises(JobFailed) as failed:
        await follower.follow()
    assert failed.value.diagnosis.cause is not None
    assert failed.value.diagnosis.cause.id == "kueue-preempted"


async def test_a_retry_waits_with_the_taken_cluster_for_its_turn_and_makes_sure_of_it_anew(tmp_path: Path) -> None:
    world = held(TAKEN)
    world.hold(session="session_0")
    world.ray.silent = True

    def admitted() -> None:
        world.ray.silent = False
        world.seen = snapshot(cluster=cluster(labels=LABEL), workloads=(TAKEN,))

    world.steps = [lambda: None, admitted]
    ensured = await reach(world, tmp_path)
    assert ensured.ref.uid == UID
    assert ensured.ref.annotations[READY_SESSION] == world.ray.session
    assert (world.deleted, world.specs) == ([], [])


async def test_what_is_submitted_after_that_has_a_name_of_its_own(tmp_path: Path) -> None:
    world = World(seen=snapshot(cluster=cluster(labels=LABEL), workloads=(TAKEN,)))
    before = world.hold(session="session_0")
    after = (await reach(world, tmp_path)).ref
    assert submission_id(before, "train", 1) != submission_id(after, "train", 1)
    assert submission_id(after, "train", 1) == submission_id(after, "train", 1)


async def test_a_job_that_still_answers_on_a_taken_cluster_is_not_adopted(tmp_path: Path) -> None:
    world = held(TAKEN)
    world.hold(session=world.ray.session)
    assert await usable_cluster(world.tools(tmp_path), QUEUED, Stage.TRAIN, try_number=2) is None


async def test_a_cluster_that_was_admitted_again_before_the_retry_is_used_again(tmp_path: Path) -> None:
    world = World(seen=snapshot(cluster=cluster(labels=LABEL), workloads=(TAKEN,)))
    world.hold(session="session_0")
    assert (await reach(world, tmp_path)).ref.uid == UID


async def test_a_cluster_that_kueue_gave_up_is_replaced(tmp_path: Path) -> None:
    world = held(workload(says("Evicted", "True", "Deactivated", ""), active=False, evictions={"PodsReadyTimeout": 3}))
    world.hold(session="session_0")
    world.ray.silent = True
    world.steps = [lambda: None] * 9
    with pytest.raises(Diagnosed):
        await reach(world, tmp_path)
    assert world.deleted == [UID]
    assert len(world.specs) == 1
