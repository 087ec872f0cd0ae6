"""The life of one local cluster: adopted, verified, used, mended, and gone."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from rayflight.archive import Archive
from rayflight.backends import local_keeping
from rayflight.backends.base import ClusterRef, Submission
from rayflight.backends.local import LocalBackend
from rayflight.errors import ClusterGone, ForeignObject, InvalidSpec
from rayflight.keeper import processes
from rayflight.labels import VERIFIED_SESSION, airflow_selector
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.verify import verify
from rayflight.snapshot.readiness import readiness
from rayflight.specs import ClusterSpec
from rayflight.states import JobStatus
from tests.local.watching import ended, gone, interfaces_of, network_of, of_tree, owner, ready, until

OWNER = owner("one")


@pytest.fixture
async def ref(backend: LocalBackend, spec: ClusterSpec) -> ClusterRef:
    """The same cluster for every test of this module: creating it again adopts it."""
    made = await backend.create(spec, OWNER, "default")
    await ready(backend, made)
    return made


async def test_the_same_attempt_adopts_and_another_is_refused(backend, spec, ref):
    before = {process.pid for process in processes.members(ref.uid)}
    again = await backend.create(spec, OWNER, "default")
    assert again.uid == ref.uid
    assert before <= {process.pid for process in processes.members(ref.uid)}
    with pytest.raises(ForeignObject, match="from another spec"):
        await backend.create(spec.replace(env={"OTHER": "1"}), OWNER, "default")
    (found,) = await backend.find("default", airflow_selector("tests"))
    assert (found.uid, found.owner) == (ref.uid, OWNER)
    assert await backend.find("default", airflow_selector("others")) == []


async def test_a_job_runs_and_its_log_is_read_from_any_byte(backend, ref):
    jobs = backend.jobs(ref)
    await jobs.submit(Submission(id="lines", entrypoint="sh -c 'seq 1 500; exit 3'"))
    job = await ended(backend, ref, "lines")
    assert (job.status, job.driver_exit_code) == (JobStatus.FAILED, 3)
    whole = await jobs.read_driver_log(job, 0, 1_000_000)
    assert b"\n499\n500\n" in whole
    assert await jobs.read_driver_log(job, 100, 50) == whole[100:150]
    names = {log.name for log in await backend.logs(ref)}
    assert {"keeper.log", f"{ref.name}-head/job-driver-lines.log", f"{ref.name}-gpu-worker-1/raylet.out"} <= names


async def test_verification_passes_and_calls_simulated_gpus_simulated(backend, spec, ref, tmp_path):
    flight = Flight(owner=OWNER, namespace="default", spec=spec.to_dict(), archive=tmp_path.as_uri())
    tools = Tools(backend=backend, archive=Archive(tmp_path, url=tmp_path.as_uri()), say=print)
    checks = (await verify(tools, flight, ref, deadline=datetime.now(UTC) + timedelta(seconds=120))).checks
    verdicts = {(check.id, str(check.verdict)) for check in checks}
    assert {verdict for _, verdict in verdicts} == {"passed", "not applicable"}
    assert {("gpu-count", "not applicable"), ("gpu-real", "not applicable"), ("compute", "passed")} <= verdicts
    assert all("SIMULATED" in check.observed for check in checks if check.id in ("gpu-count", "gpu-real", "gpu-alike"))
    (noted,) = [item for item in await backend.find("default", "") if item.uid == ref.uid]
    assert noted.annotations[VERIFIED_SESSION] == readiness(await backend.observe(ref)).session
    with pytest.raises(ClusterGone):
        await backend.annotate(replace(ref, uid="another"), {VERIFIED_SESSION: "x"})


async def test_nothing_of_the_cluster_listens_outside_its_fence(backend, access, ref):
    if why := local_keeping.why_not_fenced(access):
        pytest.skip(f"{why}: the token test covers that")
    head = of_tree(ref, "-head", "raylet").pid
    assert network_of(head) != network_of("self")
    assert backend.dashboard_url(ref) is None
    assert interfaces_of(head) == ["lo"]


async def test_a_worker_that_dies_is_started_again_in_the_same_session(backend, ref):
    before, name = readiness(await backend.observe(ref)), f"{ref.name}-gpu-worker-1"
    os.kill(of_tree(ref, "-worker-1", "raylet").pid, signal.SIGKILL)

    async def joined() -> bool:
        found = readiness(await backend.observe(ref))
        return found.ready and found.mapped[name] != before.mapped[name]

    await until("another Ray node of the same worker has joined", joined)
    seen = await backend.observe(ref)
    assert readiness(seen).session == before.session
    assert seen.workers()[0].containers[0].restarts == 1


async def test_a_worker_that_is_replaced_is_another_ray_node_under_its_name(backend, ref):
    """`on_fail: replace` without pods: the tree ends, and the keeper starts it again."""
    seen = await backend.observe(ref)
    before, pod = readiness(seen), seen.workers()[0]
    await backend.replace_pod(replace(ref, uid="another"), pod.name, pod.uid)
    assert readiness(await backend.observe(ref)).mapped == before.mapped
    await backend.replace_pod(ref, pod.name, pod.uid)

    async def joined() -> bool:
        found = readiness(await backend.observe(ref))
        return found.ready and found.mapped[pod.name] != before.mapped[pod.name]

    await until("another Ray node of the replaced worker has joined", joined)
    assert readiness(await backend.observe(ref)).session == before.session


async def test_nodes_cannot_be_avoided_where_there_is_one_machine(backend, spec):
    with pytest.raises(InvalidSpec, match="this machine is the only one"):
        await backend.create(spec, owner("elsewhere"), "default", avoid=["gpu-1"])
    assert await backend.find("default", owner("elsewhere").flight_selector()) == []


async def test_a_head_that_dies_comes_back_with_another_session(backend, ref):
    session = readiness(await backend.observe(ref)).session
    os.kill(of_tree(ref, "-head", "gcs_server").pid, signal.SIGKILL)
    seen = await ready(backend, ref, other_than=session)
    assert seen.head is not None
    assert seen.head.containers[0].restarts == 1


async def test_deleting_leaves_nothing_not_even_who_hid_his_environment(backend, ref):
    hide = "os.setsid(), os.execve('/bin/sleep', ['sleep', '300'], {})"
    script = f"import os; pid = os.fork(); (print('hid', pid, flush=True), os._exit(0)) if pid else ({hide})"
    await backend.jobs(ref).submit(Submission(id="hidden", entrypoint=f'python3 -c "{script}"'))
    job = await ended(backend, ref, "hidden")
    log = (await backend.jobs(ref).read_driver_log(job, 0, 100_000)).decode()
    hidden = int(log.rpartition("\nhid ")[2].split()[0])
    assert psutil.Process(hidden).environ() == {}
    await backend.delete(ref)
    await gone(backend, ref)
    assert not psutil.pid_exists(hidden) or psutil.Process(hidden).status() == psutil.STATUS_ZOMBIE
    assert (await backend.observe(ref)).cluster is None
    await backend.delete(ref)
