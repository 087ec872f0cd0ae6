"""The janitor's DAG on the local backend: what no run of this Airflow owns goes with its processes, the rest stays."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dev import quickstart_connection
from dev.airflow_home import Settings
from dev.airflow_instance import Airflow
from dev.airflow_process import wait_until
from rayflight.backends.base import ClusterRef
from rayflight.backends.local import LocalBackend
from rayflight.backends.local_access import LocalAccess
from rayflight.backends.local_state import JsonObject, Records
from rayflight.keeper import processes
from rayflight.labels import Owner
from rayflight.specs import ClusterSpec

INSTANCE = "janitor"
NAMESPACE = "swept"  # the scheduled run, which begins when the DAG is unpaused, sweeps the default one
HEAD_ALONE = {"image": "none", "head": {"memory": "1Gi"}, "groups": [{"name": "cpu", "replicas": 0}]}


@pytest.mark.timeout(300)
def test_one_sweep_ends_the_cluster_of_a_run_that_is_not_there(tmp_path: Path) -> None:
    clusters = tmp_path / "clusters"
    clusters.mkdir()
    access = LocalAccess.from_extras({"folder": str(clusters)}, home=tmp_path)
    mine, theirs = asyncio.run(made(access, INSTANCE)), asyncio.run(made(access, "another-airflow"))
    try:
        for ref in (mine, theirs):
            assert wait_until(lambda ref=ref: bool(processes.members(ref.uid)), 20)  # type: ignore[misc]
            Records(clusters).change(NAMESPACE, ref.name, ref.uid, three_minutes_old)
        settings = Settings(
            connections={"kubernetes_default": quickstart_connection.local(tmp_path)},
            rayflight={"instance": INSTANCE, "archive": (tmp_path / "archive").as_uri()},
        )
        with Airflow(settings) as airflow:
            airflow.client.wait_for_dag("rayflight_janitor")
            run = airflow.client.trigger("rayflight_janitor", {"namespaces": [NAMESPACE]})
            assert airflow.client.wait_for_run(run, 90) == "success"
            rows = airflow.client.xcom(run, "sweep")
        assert [(row["cluster"], row["action"]) for row in rows] == [(f"{NAMESPACE}/{mine.name}", "deleted")]
        assert "Airflow has no run never-was of train_ddp any more" in rows[0]["why"]
        assert wait_until(lambda: not processes.members(mine.uid), 30)
        assert processes.members(theirs.uid)
    finally:
        asyncio.run(removed(access, mine, theirs))


async def made(access: LocalAccess, instance: str) -> ClusterRef:
    owner = Owner(airflow=instance, dag_id="train_ddp", run_id="never-was", group="flight")
    async with LocalBackend(access) as backend:
        return await backend.create(ClusterSpec.parse(HEAD_ALONE, which="a head alone"), owner, NAMESPACE)


async def removed(access: LocalAccess, *refs: ClusterRef) -> None:
    async with LocalBackend(access) as backend:
        for ref in refs:
            await backend.delete(ref)
            async for _ in backend.changes(ref, at_least_every=0.2):
                if not await backend.remains(ref):
                    break


def three_minutes_old(record: JsonObject) -> None:
    """The janitor leaves a cluster alone for its first two."""
    record["metadata"]["creationTimestamp"] = (datetime.now(UTC) - timedelta(minutes=3)).isoformat()
