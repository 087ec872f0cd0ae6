"""The Ray side of a Snapshot, or the gap that says why there is none. Asks; never raises."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rayflight.backends.base import RayJobs
from rayflight.errors import ApiError
from rayflight.snapshot.model import Gap, Ray

SECONDS = 8.0  # for all of Ray's side; a dead GCS leaves its reads hanging without end
_FIELDS = {"cluster_status": "demands"}


async def look(jobs: RayJobs) -> tuple[Ray | None, list[Gap]]:
    """What Ray says now; gaps are named after the Snapshot's fields."""
    try:
        async with asyncio.timeout(SECONDS):
            side = await jobs.state()
    except TimeoutError:
        return None, [Gap(source="ray", why=f"the dashboard did not answer within {SECONDS:.0f} s")]
    except ApiError as error:
        return None, [Gap(source="ray", why=str(error))]
    return side, [replace(gap, source=_field(gap.source)) for gap in side.gaps]


def _field(source: str) -> str:
    part = source.removeprefix("ray/")
    return f"ray.{_FIELDS.get(part, part)}"
