"""Logs by offset and working_dir upload against a real Ray."""

from __future__ import annotations

from pathlib import Path

from rayflight.backends.base import Submission
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.packages import pack
from rayflight.states import JobStatus
from tests.ray.waiting import ended


async def test_a_log_is_read_from_any_byte(jobs: RayJobsClient, only_dashboard: RayJobsClient, ray_logs: Path) -> None:
    await jobs.submit(Submission(id="lines", entrypoint="sh -c 'for n in $(seq 1 2000); do echo grüße $n; done'"))
    job = await ended(jobs, "lines")
    whole = (ray_logs / "job-driver-lines.log").read_bytes()
    assert whole.count("grüße".encode()) == 2001, "the lines and the echoed command; Ray adds lines of its own"
    pieces, offset = [], 0
    while block := await jobs.read_driver_log(job, offset, 4096):
        pieces.append(block)
        offset += len(block)
    assert b"".join(pieces) == whole
    assert await only_dashboard.read_driver_log(job, 100, 4096) == whole[100:4196]
    assert await jobs.read_driver_log(job, len(whole), 4096) == b""


async def test_a_working_dir_arrives_whole_and_is_sent_once(jobs: RayJobsClient, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "words.py").write_text("WORD = 'arrived'\n")
    (tmp_path / "main.py").write_text("from lib.words import WORD\nprint(WORD)\n")
    package = pack(tmp_path)
    uris = {await jobs.upload_package(package.name, package.archive) for _ in range(2)}
    assert uris == {package.uri}
    await jobs.submit(Submission(id="folder", entrypoint="python3 main.py", runtime_env={"working_dir": package.uri}))
    job = await ended(jobs, "folder")
    assert job.status is JobStatus.SUCCEEDED, job.message
    assert b"\narrived\n" in await jobs.read_driver_log(job, 0, 100_000)
