"""The processes of a submission and their stacks, as Ray's own dashboard gives them. Asks; decides nothing.

Stacks come from `/worker/traceback` (py-spy on the process's own Ray node). Ray 2.60 serves it only where the head was
started with RAY_DASHBOARD_ENABLE_PROFILING=1; with token authentication it needs the token like every other path, and
the API server's service proxy passes it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from rayflight.errors import ApiUnreachable
from rayflight.rayjobs.refusals import kube_status, refusal
from rayflight.rayjobs.transport import Transport
from rayflight.snapshot.hang import Sample, TrainingProcess
from rayflight.snapshot.model import Job
from rayflight.snapshot.stacks import read_dump, read_refusal

STACK_TIMEOUT = 15.0  # 0.03 s on an idle node
_LIST_TIMEOUT = 10.0
_TRAIN, _CONTROLLER = "RayTrainWorker", "TrainController"
_COMING = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "RESTARTING")
# Actors of Ray's own libraries: they wait all day, and say nothing about the training.
_RAYS_OWN = frozenset(
    (
        *(_CONTROLLER, "DatasetManager", "PreemptionWatcher", "PlacementGroupCleaner", "SynchronizationActor"),
        *("AutoscalingRequester", "SplitCoordinator", "JobSupervisor", "TrainStateActor", "TrainV2StateActor"),
    )
)


async def processes(transport: Transport, job: Job) -> tuple[TrainingProcess, ...]:
    """Ray Train's ranks; where there are none, the job's other actors and tasks; where there are none, its driver.

    Nothing while actors are still to come: that the driver waits for them says nothing.
    """
    known = await _listed(transport, "actors", job)
    actors = [item for item in known if item.get("state") == "ALIVE"]
    ranks = [item for item in actors if item.get("class_name") == _TRAIN]
    if ranks:
        return tuple(_actors(ranks))
    if any(_to_come(item) for item in known):
        return ()
    others = [item for item in actors if not _rays_own(str(item.get("class_name") or ""))]
    tasks = [
        item
        for item in await _listed(transport, "tasks", job)
        if item.get("state") == "RUNNING" and item.get("type") == "NORMAL_TASK"
    ]
    found = (*_actors(others), *_tasks(tasks))
    return found or await _driver(transport, job)


async def stack(transport: Transport, process: TrainingProcess) -> Sample:
    """One sample of the process's stack, or why there is none. Raises ApiError where nobody answered for Ray."""
    params = {"pid": str(process.pid), "node_id": process.ray_node, "native": "0", "subprocesses": "0"}
    try:
        response = await transport.request("GET", "/worker/traceback", params=params, timeout=STACK_TIMEOUT)
    except ApiUnreachable as error:
        return Sample(why=f"no answer: {error}", unanswered=True)
    if response.status == 200:
        return read_dump(response.text, "py-spy")
    if kube_status(response) is not None or response.status == 401:
        raise refusal(response, "Cannot read the stack", f"process {process.pid}")
    return read_refusal(response.text)


async def _listed(transport: Transport, kind: str, job: Job) -> list[Mapping[str, Any]]:
    """What Ray's state API lists of this job."""
    if not job.ray_job:
        return []
    filters = {"filter_keys": "job_id", "filter_predicates": "=", "filter_values": job.ray_job}
    response = await transport.request(
        "GET", f"/api/v0/{kind}", params={"detail": "1", "limit": "10000", **filters}, timeout=_LIST_TIMEOUT
    )
    if response.status != 200:
        raise refusal(response, f"Cannot list the {kind} of the submission", job.id)
    try:
        found: list[Mapping[str, Any]] = response.json()["data"]["result"]["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise ApiUnreachable(f"Cannot list the {kind}", which=job.id, why="the answer has another shape") from error
    return found


def _to_come(item: Mapping[str, Any]) -> bool:
    """An actor of the training that is not there yet; Ray Train's controller makes its ranks."""
    name, state = str(item.get("class_name") or ""), item.get("state")
    if name == _CONTROLLER:
        return state != "DEAD"
    return state in _COMING and not _rays_own(name)


def _rays_own(name: str) -> bool:
    return name in _RAYS_OWN or name.startswith("_")


def _actors(items: list[Mapping[str, Any]]) -> Iterator[TrainingProcess]:
    for item in items:
        if item.get("pid") and item.get("node_id"):
            name = item.get("name") or item.get("repr_name") or item.get("class_name")
            yield TrainingProcess(pid=int(item["pid"]), ray_node=str(item["node_id"]), name=str(name), gpus=_gpus(item))


def _tasks(items: list[Mapping[str, Any]]) -> Iterator[TrainingProcess]:
    for item in items:
        if item.get("worker_pid") and item.get("node_id"):
            yield TrainingProcess(
                pid=int(item["worker_pid"]),
                ray_node=str(item["node_id"]),
                name=f"task {item.get('name') or ''}".strip(),
                gpus=_gpus(item),
            )


def _gpus(item: Mapping[str, Any]) -> float:
    """In a placement group the resource is called GPU_group_…, and again with its bundle's index."""
    asked = item.get("required_resources") or {}
    return max((float(amount) for name, amount in asked.items() if name.partition("_")[0] == "GPU"), default=0.0)


async def _driver(transport: Transport, job: Job) -> tuple[TrainingProcess, ...]:
    """The driver itself, where it has told Ray its process (``ray.init``)."""
    response = await transport.request("GET", f"/api/jobs/{quote(job.id, safe='')}", timeout=_LIST_TIMEOUT)
    if response.status != 200:
        raise refusal(response, "Cannot read the submission", job.id)
    try:
        pid = (response.json().get("driver_info") or {}).get("pid")
    except (ValueError, AttributeError) as error:
        raise ApiUnreachable("Cannot read the submission", which=job.id, why="the answer has another shape") from error
    if not pid or not job.driver_node_id:
        return ()
    return (TrainingProcess(pid=int(pid), ray_node=job.driver_node_id, name="driver"),)
