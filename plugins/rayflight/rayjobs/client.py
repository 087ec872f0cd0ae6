"""The Ray Jobs API of one cluster, over any transport. Deadlines on every call; decides nothing, waits for nothing.

An answer becomes facts (by ``snapshot.ray``) or one of ``errors.ApiError``. An unreachable dashboard is ApiUnreachable
and says nothing about a job; only Ray's own 404 means that Ray does not know it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from rayflight.errors import ApiError, ApiUnreachable, Conflict
from rayflight.rayjobs import stacks
from rayflight.rayjobs.refusals import kube_status, reason, refusal
from rayflight.rayjobs.transport import Response, Transport
from rayflight.snapshot import ray as facts
from rayflight.snapshot.hang import Sample, TrainingProcess
from rayflight.snapshot.model import Gap, Job, Ray

if TYPE_CHECKING:
    from rayflight.backends.base import Submission

# Seconds. A dead GCS leaves GET job hanging without end (kuberay facts B5), so reads give up early.
READ_TIMEOUT = 10.0
SUBMIT_TIMEOUT = 30.0  # Ray itself waits 10 s for an agent
UPLOAD_TIMEOUT = 180.0
WHOLE_LOG_TIMEOUT = 60.0  # 45 MB took 1.4 s on an idle head

_ALL = {"detail": "1", "limit": "10000"}  # the state API truncates at 10,000 entries itself
_PIECES = {
    "nodes": ("/api/v0/nodes", _ALL),
    "nodes_summary": ("/nodes", {"view": "summary"}),  # for the pod names only
    "jobs": ("/api/jobs/", None),
    "placement_groups": ("/api/v0/placement_groups", _ALL),
    "cluster_status": ("/api/cluster_status", {"format": "1"}),
}
_AFTERMATH = {  # what vanishes with the head and only a person wants to see
    "train_runs": ("/api/train/v2/runs/v1", None),
    "actors": ("/api/v0/actors", {"detail": "1", "limit": "1000"}),
}
# Ray says 500 when no training here used Ray Train, or none is tracked (dashboard/modules/train/train_head.py).
_NO_TRAIN = re.compile(r"^Train (state data is not available|is not installed)")
_T = TypeVar("_T")
_EXISTS = re.compile(r"submission_id .* already exists", re.IGNORECASE)


class ReadFile(Protocol):
    """Reads ``limit`` bytes from ``offset`` of a file in the log folder of a Ray node.

    None means: this way is closed (no right, no agent), take another. Empty means: nothing there at this offset yet.
    """

    async def __call__(self, node_id: str, filename: str, offset: int, limit: int) -> bytes | None:
        """Read."""
        ...


class RayJobsClient:
    """Implements ``backends.base.RayJobs``. ``read_file`` reads logs by byte range where the backend can.

    ``bare`` is the same way without a token; a transport that has none to bring is its own.
    """

    def __init__(
        self,
        transport: Transport,
        read_file: ReadFile | None = None,
        *,
        read_timeout: float = READ_TIMEOUT,
        bare: Transport | None = None,
    ) -> None:
        self._transport, self._bare = transport, bare or transport
        self._read_file = read_file
        self._read_timeout = read_timeout

    async def version(self) -> tuple[str, str]:
        """(ray version, session_name). No health check: Ray answers it without a GCS too."""
        return facts.version(await self._json("/api/version", "Cannot read Ray's version"))

    async def state(self) -> Ray:
        """The Ray side of a Snapshot. Raises when not even the version can be read; lesser pieces become gaps."""
        raw = await self.raw_state()
        gaps = [answer for answer in raw.values() if isinstance(answer, Gap)]
        pods = {} if isinstance(raw["nodes_summary"], Gap) else raw["nodes_summary"]
        version, session = facts.version(raw["version"])
        return Ray(
            session=session,
            version=version,
            gcs_healthy=raw["gcs_healthz"] if isinstance(raw["gcs_healthz"], bool) else None,
            nodes=_read(raw, "nodes", lambda answer: facts.ray_nodes(answer, pods), gaps),
            jobs=_read(raw, "jobs", facts.jobs, gaps),
            placement_groups=_read(raw, "placement_groups", facts.placement_groups, gaps),
            pending_demands=_read(raw, "cluster_status", facts.pending_demands, gaps),
            gaps=tuple(gaps),
        )

    async def raw_state(self) -> dict[str, Any]:
        """What the state is read from, as Ray says it, by name; a Gap where a piece could not be read."""
        version = await self._json("/api/version", "Cannot read Ray's version")
        answers = await asyncio.gather(self._health(), *(self._piece(name, *ask) for name, ask in _PIECES.items()))
        return {"version": version, **dict(zip(("gcs_healthz", *_PIECES), answers, strict=True))}

    async def aftermath(self) -> dict[str, Any]:
        """Ray Train's runs and the actors with their causes of death, by name; a Gap where one could not be read."""
        answers = await asyncio.gather(*(self._piece(name, *ask) for name, ask in _AFTERMATH.items()))
        return dict(zip(_AFTERMATH, answers, strict=True))

    async def get(self, submission_id: str) -> Job | None:
        """The submission, or None when Ray itself says that it does not know it."""
        response = await self._get(f"/api/jobs/{quote(submission_id, safe='')}")
        if response.status == 404 and kube_status(response) is None:
            return None
        return facts.job(self._data(response, "Cannot read the submission", submission_id))

    async def list(self) -> tuple[Job, ...]:
        """All submissions of this session, oldest first."""
        data = await self._json("/api/jobs/", "Cannot list the submissions")
        return facts.jobs(data)

    async def status_without_token(self) -> int:
        """Whether Ray itself asks for the token: the list of jobs, on the same way, as a stranger."""
        return (await self._bare.request("GET", "/api/jobs/", timeout=self._read_timeout)).status

    async def submit(self, submission: Submission) -> None:
        """POST once. A lost answer is ApiUnreachable: ask ``get`` whether it arrived before you post again."""
        response = await self._transport.request(
            "POST", "/api/jobs/", json=submission_body(submission), timeout=SUBMIT_TIMEOUT
        )
        if response.status == 200:
            return
        if response.status in (400, 409, 500) and _EXISTS.search(response.text):
            raise Conflict(
                "Ray has a submission of that id already",
                which=submission.id,
                why=reason(response),
                next_step="read it and compare its metadata: adopt it if it is this task's",
            )
        raise refusal(response, "Ray did not take the submission", submission.id)

    async def upload_package(self, name: str, archive: bytes) -> str:
        """Upload a working_dir zip unless Ray has it; returns its gcs:// URI.

        The GET is more than a question: Ray then holds the package for ten minutes though no job uses it yet.
        """
        path = f"/api/packages/gcs/{quote(name, safe='')}"
        response = await self._get(path)
        if response.status == 404 and kube_status(response) is None:
            response = await self._transport.request("PUT", path, content=archive, timeout=UPLOAD_TIMEOUT)
        if response.status != 200:
            raise refusal(response, "Cannot upload the working directory", name)
        return f"gcs://{name}"

    async def stop(self, submission_id: str) -> bool:
        """Ask Ray to stop it; False when it runs no more or is unknown. True is no proof for a PENDING one."""
        path = f"/api/jobs/{quote(submission_id, safe='')}/stop"
        response = await self._transport.request("POST", path, timeout=SUBMIT_TIMEOUT)
        if response.status == 404 and kube_status(response) is None:
            return False
        return bool(self._data(response, "Cannot stop the submission", submission_id)["stopped"])

    async def read_driver_log(self, job: Job, offset: int, limit: int) -> bytes:
        """Bytes ``offset``..``offset+limit`` of the driver log; empty when there are none (yet)."""
        name = f"job-driver-{job.id}.log"
        if not job.driver_node_id:
            return b""
        if self._read_file is not None:
            block = await self._read_file(job.driver_node_id, name, offset, limit)
            if block is not None:
                return block
        return (await self._whole_log(job, name))[offset : offset + limit]

    async def processes(self, job: Job) -> tuple[TrainingProcess, ...]:
        """The processes that train, without samples."""
        return await stacks.processes(self._transport, job)

    async def stack(self, process: TrainingProcess) -> Sample:
        """One sample of a process's stack, or why there is none."""
        return await stacks.stack(self._transport, process)

    async def _whole_log(self, job: Job, name: str) -> bytes:
        """The dashboard knows no offsets: it sends the file whole, straight from the node or out of its job store."""
        params = {"node_id": job.driver_node_id, "filename": name, "lines": "-1"}
        response = await self._transport.request("GET", "/api/v0/logs/file", params=params, timeout=WHOLE_LOG_TIMEOUT)
        if response.status == 200:
            return response.body
        path = f"/api/jobs/{quote(job.id, safe='')}/logs"
        response = await self._transport.request("GET", path, timeout=WHOLE_LOG_TIMEOUT)
        return str(self._data(response, "Cannot read the driver log", job.id)["logs"]).encode()

    async def _health(self) -> bool | Gap:
        try:
            response = await self._get("/api/gcs_healthz")
        except ApiUnreachable as error:
            return Gap(source="ray/gcs_healthz", why=str(error))
        if response.status == 200:
            return response.text.strip() == "success"
        if response.status == 503 and kube_status(response) is None:
            return False
        return Gap(source="ray/gcs_healthz", why=str(refusal(response, "Cannot read the health of the GCS", "")))

    async def _piece(self, name: str, path: str, params: Mapping[str, str] | None) -> Any:
        try:
            response = await self._transport.request("GET", path, params=params, timeout=self._read_timeout)
            if response.status == 500 and _NO_TRAIN.search(response.text):
                return {"train_runs": {}}
            return self._data(response, f"Cannot read Ray's {name.replace('_', ' ')}", "")
        except ApiError as error:
            return Gap(source=f"ray/{name}", why=str(error))

    async def _get(self, path: str) -> Response:
        return await self._transport.request("GET", path, timeout=self._read_timeout)

    async def _json(self, path: str, what: str) -> Any:
        return self._data(await self._get(path), what, "")

    @staticmethod
    def _data(response: Response, what: str, which: str) -> Any:
        if response.status != 200:
            raise refusal(response, what, which)
        try:
            return response.json()
        except ValueError as error:
            raise ApiUnreachable(
                what, which=which, why="the answer is no JSON", next_step="look at what serves this address"
            ) from error


def submission_body(submission: Submission) -> dict[str, Any]:
    """The JSON that Ray expects. Absent stays absent: Ray refuses a null number."""
    optional: Mapping[str, Any] = {
        "entrypoint_num_cpus": submission.num_cpus,
        "entrypoint_num_gpus": submission.num_gpus,
        "entrypoint_memory": submission.memory_bytes,
        "entrypoint_resources": dict(submission.resources) or None,
    }
    return {
        "submission_id": submission.id,
        "entrypoint": submission.entrypoint,
        "runtime_env": dict(submission.runtime_env),
        "metadata": dict(submission.metadata),
        **{key: value for key, value in optional.items() if value is not None},
    }


def _read(
    raw: Mapping[str, Any], name: str, reader: Callable[[Any], tuple[_T, ...]], gaps: list[Gap]
) -> tuple[_T, ...]:
    """A piece as facts; one that says itself that it failed, or has another shape, is one gap more."""
    if isinstance(raw[name], Gap):
        return ()
    try:
        return reader(raw[name])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        gaps.append(Gap(source=f"ray/{name}", why=f"Ray's answer cannot be read: {error!r}"))
        return ()
