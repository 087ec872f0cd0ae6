"""The probe on a real Ray with two logical GPUs and no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayflight.backends.base import Submission
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.probe import probe_entrypoint, probe_package, probe_result
from rayflight.states import JobStatus
from tests.ray.waiting import ended, running


async def fly(jobs: RayJobsClient, name: str, expect: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    package = probe_package()
    uri = await jobs.upload_package(package.name, package.archive)
    runtime_env = {"working_dir": uri, "env_vars": dict(env)}
    await jobs.submit(Submission(id=name, entrypoint=probe_entrypoint(expect), runtime_env=runtime_env))
    job = await ended(jobs, name)
    log = (await jobs.read_driver_log(job, 0, 10_000_000)).decode()
    assert job.status is JobStatus.SUCCEEDED, log
    result = probe_result(log)
    assert result is not None, log
    return result


async def test_every_gpu_has_a_rank_that_answers_everything(jobs: RayJobsClient, tmp_path: Path) -> None:
    storage = {"RAYFLIGHT_STORAGE_PATH": str(tmp_path)}
    result = await fly(jobs, "probe", {"gpus": 2, "placement_seconds": 20, "total_seconds": 60}, storage)
    assert result["placement"] == {"ok": True, "bundles": 2, "error": None}
    ranks = result["ranks"]
    assert sorted(rank["gpu_ids"] for rank in ranks) == [[0], [1]]
    assert sorted(rank["cuda_visible_devices"] for rank in ranks) == ["0", "1"]
    for rank in ranks:
        assert rank["error"] is None
        assert (rank["compute"]["matmul_ok"], rank["compute"]["max_error"]) == (True, 0.0)
        assert (rank["collective"]["ok"], rank["collective"]["sum"], rank["collective"]["world_size"]) == (True, 3.0, 2)
        assert rank["object_store"] == {"put_get_ok": True, "from_node": rank["ray_node_id"]}
        assert rank["storage"] == {"path": str(tmp_path), "wrote": True, "read_all": True}
        assert rank["shm_bytes"] > 0
    assert list((tmp_path / ".rayflight-probe").iterdir()) == []


async def test_a_gpu_that_another_job_holds_is_a_result(jobs: RayJobsClient) -> None:
    await jobs.submit(Submission(id="holder", entrypoint="sleep 300", num_gpus=1))
    await running(jobs, "holder")
    result = await fly(jobs, "crowded", {"gpus": 2, "placement_seconds": 3, "total_seconds": 60}, {})
    await jobs.stop("holder")
    assert result["placement"]["ok"] is False
    assert "no room for 2 bundles" in result["placement"]["error"]
    assert "GPU 1" in result["placement"]["error"]


async def test_storage_that_cannot_be_written_is_each_ranks_error(jobs: RayJobsClient) -> None:
    env = {"RAYFLIGHT_STORAGE_PATH": "/proc/nowhere"}
    result = await fly(jobs, "no-storage", {"gpus": 2, "total_seconds": 60}, env)
    for rank in result["ranks"]:
        assert rank["storage"] == {"path": "/proc/nowhere", "wrote": False, "read_all": False}
        assert "write: FileNotFoundError" in rank["error"]
        assert rank["collective"]["ok"] is True


async def test_each_rank_says_what_it_runs_on_besides_its_gpu(jobs: RayJobsClient) -> None:
    result = await fly(jobs, "surroundings", {"gpus": 2, "total_seconds": 60}, {})
    assert (result["schema"], result["after"]) == (1, {})
    for rank in result["ranks"]:
        assert rank["error"] is None
        assert rank["nvml"]["ok"] is None
        assert rank["copy"]["ok"] is None
        assert rank["shared_memory"]["ok"] is True
        assert rank["disk"]["free_bytes"] > 0
        assert (rank["head"]["error"], rank["head"]["reached"]["gcs"]) == (None, None)
        assert abs(rank["clock"]["offset_seconds"]) < 1
