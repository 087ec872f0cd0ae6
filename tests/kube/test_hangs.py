"""A training that hangs in pods: through the API server's proxy its ranks are asked, also where pods may not ptrace."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dev.airflow_home import ROOT
from dev.cluster import Cluster
from dev.place import Place
from rayflight.archive import Archive
from rayflight.backends.kubernetes import KubernetesBackend
from rayflight.errors import JobFailed
from rayflight.findings import Finding
from rayflight.kube.access import KubeAccess
from rayflight.labels import Owner
from rayflight.lifecycle.flight import Flight, Tools
from rayflight.lifecycle.following import Follower
from rayflight.lifecycle.provision import provision
from rayflight.lifecycle.ready import wait_ready
from rayflight.lifecycle.submission import submit_once
from rayflight.specs import ClusterSpec, JobSpec, load_cluster
from testbed.nodes import NODES
from testbed.paths import Layout

NAMESPACE = "t-hangs"
PROFILE = "rayflight-no-ptrace.json"
CALLS = ["ptrace", "process_vm_readv", "process_vm_writev"]
NO_PTRACE = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": CALLS, "action": "SCMP_ACT_ERRNO"}]}


@pytest.fixture(scope="module", autouse=True)
def namespace(cluster: Cluster) -> Iterator[None]:
    cluster.create_namespace(NAMESPACE)
    yield
    cluster.delete_namespace(NAMESPACE)


@pytest.fixture(scope="module")
def no_ptrace() -> Iterator[dict[str, Any]]:
    """What a pod template needs so that the kernel refuses ptrace in it, as in a hardened cluster."""
    folders = [Layout.full().kubelet_root(node.name) / "seccomp" for node in NODES]
    for folder in folders:
        folder.mkdir(exist_ok=True)
        (folder / PROFILE).write_text(json.dumps(NO_PTRACE))
    yield {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": PROFILE}}}
    for folder in folders:
        (folder / PROFILE).unlink()


async def fly(place: Place, folder: Path, run: str, spec: ClusterSpec, job: JobSpec) -> Finding:
    """Create, wait, submit, follow, delete; the cause that ended it."""
    owner = Owner(airflow="tests", dag_id="hangs", run_id=run, group="flight")
    flight = Flight(owner=owner, namespace=NAMESPACE, spec=spec.to_dict(), archive=folder.as_uri(), verify=False)
    async with KubernetesBackend(KubeAccess(kubeconfig=str(place.kubeconfig))) as backend:
        archive = Archive(folder, url=folder.as_uri())
        async with Tools(backend=backend, archive=archive, say=lambda text, *words: print(text % words)) as tools:
            ref = await provision(tools, flight)
            try:
                await wait_ready(tools, flight, ref, deadline=datetime.now(UTC) + timedelta(minutes=4))
                (ref,) = await backend.find(NAMESPACE, owner.flight_selector())
                submitted = await submit_once(tools, flight, ref, job, task="train", try_number=1)
                follower = Follower(
                    tools=tools, flight=flight, ref=ref, submission_id=submitted.id, session=submitted.session,
                    deadline=datetime.now(UTC) + timedelta(minutes=4),
                    on_hang=job.on_hang, hang_after=job.hang_after,
                )  # fmt: skip
                with pytest.raises(JobFailed) as raised:
                    await follower.follow()
            finally:
                await backend.delete(ref)
            async with asyncio.timeout(120):
                async for _ in backend.changes(ref, at_least_every=0.5):
                    if not await backend.remains(ref):
                        break
    assert raised.value.diagnosis.cause is not None
    return raised.value.diagnosis.cause


def a_job(drill: str, **changes: Any) -> JobSpec:
    given = {
        "entrypoint": f"python3 {drill}.py --ranks 2 --gpus-per-rank 1",
        "working_dir": ROOT / "include" / "drills",
        "on_hang": "fail",
        "hang_after": "15s",
        "env": {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5"},
    }
    return JobSpec.model_validate({**given, **changes})


async def test_a_starving_rank_is_named_with_pod_and_node(place: Place, tmp_path: Path) -> None:
    cause = await fly(place, tmp_path, "stack", load_cluster("testbed-2x1"), a_job("hang_data_loader"))
    assert cause.id == "rank-stuck"
    assert cause.summary.startswith("rank 1 on pod rf-")
    assert re.match(r"rank 1 on pod \S+, node gpu-\d, GPU 0: ", cause.summary)
    assert "waiting for input data, in DataLoader.__next__" in cause.summary
    assert "1 other waits for it in all_reduce" in cause.summary


async def test_where_ptrace_is_refused_signals_and_proc_tell(
    place: Place, tmp_path: Path, no_ptrace: dict[str, Any]
) -> None:
    shape = load_cluster("testbed-2x1")
    groups = [{**group, "extra": {"template": {"spec": no_ptrace}}} for group in shape.to_dict()["groups"]]
    spec = ClusterSpec.model_validate({**shape.to_dict(), "groups": groups})
    cause = await fly(place, tmp_path, "signal", spec, a_job("hang_stopped_rank", stack_signal=True))
    assert cause.id == "rank-stopped"
    assert "is stopped (state T); 1 other waits for it in barrier" in cause.summary
    said = json.loads(next(tmp_path.glob("**/hangs/*.json")).read_text())  # noqa: ASYNC240
    ways = {sample["how"] for process in said["hang"]["processes"] for sample in process["samples"]}
    assert ways == {"", "faulthandler"}
