"""The second way to stacks, for processes of which Ray's dashboard gave none: a small job that looks from beside them.

It also knows the kernel's state of each, which no endpoint of Ray tells. It asks for no CPU, so that a full cluster
runs it, too; where it cannot run, that is noted with each process, and the missing answers are the evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rayflight.backends.base import ClusterRef, RayJobs, Submission
from rayflight.errors import ApiError
from rayflight.labels import digest
from rayflight.lifecycle.flight import Tools
from rayflight.rayjobs.probe import STACKS_MARK, probe_package, probe_result, stacks_entrypoint
from rayflight.snapshot.hang import Sample, TrainingProcess
from rayflight.snapshot.stacks import read_dump

_POLL = 0.5  # seconds; the Jobs API has no watch
_BETWEEN = 4.0  # seconds between its two samples
_SECONDS = 40.0  # hard limit of the job itself
_PATIENCE = timedelta(seconds=60)  # with its start
_LOG_BYTES = 8 * 1024 * 1024


async def look_inside(
    tools: Tools, api: RayJobs, ref: ClusterRef, processes: tuple[TrainingProcess, ...]
) -> tuple[TrainingProcess, ...]:
    """Those without a stack (and not known to be stopped) with samples from beside them; the rest as they are."""
    mute = [it for it in processes if not any(sample.frames or sample.state for sample in it.samples)]
    if not mute:
        return processes
    tools.say("%d of %d processes gave no stack (%s): looking from beside them", len(mute), len(processes), _why(mute))
    asked: dict[str, list[int]] = {}
    for process in mute:
        asked.setdefault(process.ray_node, []).append(process.pid)
    try:
        found, problem = await _ask(tools, api, ref, asked), ""
    except ApiError as error:
        found, problem = None, str(error)
    if found is None:
        tools.say("Nobody could look from beside them: %s", problem or "the job gave no result in time")
        return processes
    return tuple(_with(process, found.get(process.ray_node)) if process in mute else process for process in processes)


async def _ask(tools: Tools, api: RayJobs, ref: ClusterRef, asked: Mapping[str, list[int]]) -> Mapping[str, Any] | None:
    package = await asyncio.to_thread(probe_package)
    now = tools.now()
    submission = Submission(
        id=f"rf-stacks-{digest(ref.uid, now.isoformat())}",
        entrypoint=stacks_entrypoint(asked, between=_BETWEEN, seconds=_SECONDS),
        runtime_env={"working_dir": await api.upload_package(package.name, package.archive)},
    )
    await api.submit(submission)
    async for _ in tools.backend.changes(ref, at_least_every=_POLL):
        job = await api.get(submission.id)
        if job is None or job.status.ended:
            break
        if tools.now() - now > _PATIENCE:
            await api.stop(submission.id)
            break
    if job is None:
        return None
    log = (await api.read_driver_log(job, 0, _LOG_BYTES)).decode(errors="replace")
    return probe_result(log, STACKS_MARK)


def _with(process: TrainingProcess, answers: Any) -> TrainingProcess:
    """The process with what was seen from beside it, added to what the endpoint said."""
    if not isinstance(answers, Mapping):
        return process
    if "error" in answers:
        return replace(process, samples=(*process.samples, Sample(why=f"its Ray node: {answers['error']}")))
    given = [_sample(answer) for answer in answers.get(str(process.pid), ())]
    return replace(process, samples=(*process.samples, *given))


def _sample(answer: Mapping[str, str]) -> Sample:
    state, why = answer.get("state", ""), answer.get("why", "")
    if "stack" not in answer:
        return Sample(state=state, why=why)
    return replace(read_dump(answer["stack"], answer.get("how", "")), state=state)


def _why(processes: list[TrainingProcess]) -> str:
    whys = {sample.why for it in processes for sample in it.samples if sample.why}
    return "; ".join(sorted(whys))[:300] or "no reason was given"
