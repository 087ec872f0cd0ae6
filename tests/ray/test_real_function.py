"""``@task.ray`` on a real Ray: the function runs where its GPU is, uses Ray itself, and its result comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayflight.airflow import shipped
from rayflight.airflow.decorator import RayTaskOperator
from rayflight.backends.base import Submission
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.packages import pack
from rayflight.snapshot.model import Job
from rayflight.states import JobStatus
from tests.fake_context import a_context
from tests.ray.waiting import ended


def spread(numbers: list[int]) -> dict[str, Any]:
    import os  # noqa: PLC0415 - as a function must that is sent

    import ray  # noqa: PLC0415

    @ray.remote  # type: ignore[untyped-decorator]
    def double(number: int) -> int:
        print("doubling", number)
        return 2 * number

    ray.init()
    return {"doubled": ray.get([double.remote(item) for item in numbers]), "gpu": os.environ["CUDA_VISIBLE_DEVICES"]}


def fail() -> None:
    raise ZeroDivisionError("on the cluster")


async def ran(jobs: RayJobsClient, folder: Path, function: Any, *args: Any, gpus: float | None = None) -> Job:
    operator = RayTaskOperator(task_id=function.__name__, python_callable=function, op_args=args, flight={})
    operator._write(folder / "_rayflight_task", a_context())
    package = pack(folder)
    uri = await jobs.upload_package(package.name, package.archive)
    entrypoint = operator.job["entrypoint"]
    name = function.__name__
    await jobs.submit(Submission(id=name, entrypoint=entrypoint, runtime_env={"working_dir": uri}, num_gpus=gpus))
    return await ended(jobs, name)


async def test_a_function_uses_ray_and_its_gpu_and_returns(jobs: RayJobsClient, tmp_path: Path) -> None:
    job = await ran(jobs, tmp_path, spread, [1, 2, 3], gpus=1)
    assert job.status is JobStatus.SUCCEEDED, job.message
    result = shipped.returned(await jobs.read_driver_log(job, 0, 1_000_000))
    assert result["doubled"] == [2, 4, 6]
    assert result["gpu"] in ("0", "1")


async def test_an_exception_is_what_ray_says_of_the_job(jobs: RayJobsClient, tmp_path: Path) -> None:
    job = await ran(jobs, tmp_path, fail)
    assert (job.status, job.driver_exit_code) == (JobStatus.FAILED, 1)
    assert "in fail" in str(job.message)
    assert "ZeroDivisionError: on the cluster" in str(job.message)
    assert 'main.py", line' not in str(job.message)
