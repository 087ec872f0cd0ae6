"""What was seen of silences, kept in the archive: who comes later (a restarted triggerer, the collection of logs) must
not take a job that was ended for a hang for one that a person stopped.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rayflight.archive import Archive
from rayflight.findings import Diagnosis
from rayflight.snapshot.hang import Hang
from rayflight.snapshot.model import Snapshot
from rayflight.states import JobStatus

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FOLDER = "hangs"


async def keep(archive: Archive, folder: str, hang: Hang, diagnosis: Diagnosis) -> None:
    """Under the time of the last sample."""
    stamp = hang.taken_at[-1].replace(":", "").partition(".")[0].partition("+")[0]
    data = {"hang": asdict(hang), "diagnosis": diagnosis.to_dict()}
    await archive.write_json(f"{folder}/{FOLDER}/{stamp}.json", data)


async def with_its_hang(archive: Archive, folder: str, seen: Snapshot) -> Snapshot:
    """The snapshot with the hang for which its newest STOPPED submission was ended, if it was."""
    stopped = {job.id for job in (seen.ray.jobs if seen.ray else ()) if job.status is JobStatus.STOPPED}
    for name in sorted(await archive.names(f"{folder}/{FOLDER}"), reverse=True) if stopped else ():
        data = await archive.read(f"{folder}/{FOLDER}/{name}")
        hang = _adapter().validate_python(json.loads(data)["hang"]) if data else None
        if hang and hang.ended and hang.submission in stopped:
            return replace(seen, hang=hang)
    return seen


def _adapter() -> TypeAdapter[Hang]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - imported where it is needed: DAG files come by here

    return TypeAdapter(Hang)
