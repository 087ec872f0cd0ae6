"""Kinds of a job's end: by Ray's error type, or by words that only one fault prints. A table; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass

from rayflight.findings import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of end: by Ray's error type, or by words that only this fault prints.

    ``untyped``: how older Ray (before 2.40), which gives no error type, begins the message of that type.
    """

    id: str
    title: str
    next_step: str
    error: str = ""
    untyped: str = ""
    pattern: str = ""
    decision: Decision = Decision.FAIL


_NO_ENVIRONMENT = r"(?i)runtime[_ ]env(ironment)? setup failed"
_NOT_SCHEDULED = r"Job supervisor actor could not be scheduled"

# The first that matches decides: words that prove a cause come before the error types that only say where it surfaced.
JOB_KINDS = (
    JobKind(
        id="ray-memory-monitor-killed",
        title="Ray's memory monitor killed workers",
        pattern=r"(killed|Task was killed) due to the node running low on memory",
        next_step="give the pods more memory, or use less per worker",
    ),
    JobKind(
        id="gpu-out-of-memory",
        title="A GPU ran out of memory",
        pattern=r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError|CUDA error: out of memory",
        next_step="use a smaller batch or model shard, or a larger GPU",
    ),
    JobKind(
        id="shared-memory-too-small",
        title="Shared memory is too small",
        pattern=(
            r"insufficient shared memory|DataLoader worker .* killed by signal: Bus error"
            r"|posix_fallocate failed : No space left|Error while creating shared memory segment"
            r"|failed to extend /dev/shm/|No space left on device: '?/dev/shm"
            r"|unable to (?:write to|allocate shared memory\(shm\) for) file </torch_"
        ),
        next_step="raise the memory limit (it sizes /dev/shm), or use fewer data loader workers",
    ),
    JobKind(
        id="ray-client-mismatch",
        title="A Ray Client of another version",
        pattern=r"Client Ray installation incompatible with server",
        next_step="submit through the Ray Jobs API instead of ray://, or use the cluster's Ray version",
    ),
    JobKind(
        id="ray-version-mismatch-of-driver",
        title="The driver has another Ray or Python version than the cluster",
        pattern=r"Version mismatch: The cluster was started with",
        next_step="use the cluster's image for the driver",
    ),
    JobKind(
        id="driver-has-no-gpu",
        title="The driver asks for a GPU that it does not have",
        pattern=r"(?m)^(?!.*\(.*pid=).*(No CUDA GPUs are available|CUDA_VISIBLE_DEVICES.* is set to ''?)",
        next_step="use GPUs in tasks, actors or training workers with num_gpus; a driver owns none by design",
    ),
    JobKind(
        id="worker-process-died",
        title="A worker process died, why is not known",
        pattern=(
            r"WorkerCrashedError|Worker unexpectedly exits with a connection error code 2"
            r"|The actor died unexpectedly before finishing this task|ActorUnavailableError"
        ),
        decision=Decision.RETRY_ELSEWHERE,
        next_step="watch the memory of the pods (peak per worker times workers against the limit); read worker-*.err",
    ),
    JobKind(
        id="runtime-env-no-network",
        title="The pods cannot reach the package index",
        pattern=(
            r"(?s)(Failed to establish a new connection|Temporary failure in name resolution|Could not fetch URL"
            r"|ConnectTimeoutError|No matching distribution found.*NewConnectionError|Network is unreachable)"
        ),
        error="RUNTIME_ENV_SETUP_FAILURE",
        untyped=_NO_ENVIRONMENT,
        next_step="bake the packages into the image, or give the pods a way to an index (PIP_INDEX_URL)",
    ),
    JobKind(
        id="runtime-env-failed",
        title="The runtime environment could not be set up",
        error="RUNTIME_ENV_SETUP_FAILURE",
        untyped=_NO_ENVIRONMENT,
        next_step="check working_dir, packages and the pods' way to the package index",
    ),
    JobKind(
        id="entrypoint-resources-unavailable",
        title="The entrypoint's resources never became free",
        error="JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
        untyped=r"Job supervisor actor failed to start within",
        next_step="ask for less for the entrypoint, or for larger pods",
    ),
    JobKind(
        id="job-supervisor-lost",
        title="Ray lost the job's supervisor",
        pattern=r"NodeAffinitySchedulingStrategy doesn't exist any more",
        error="JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
        untyped=_NOT_SCHEDULED,
        decision=Decision.RETRY_ELSEWHERE,
        next_step="see whether the head restarted; train again on a new cluster",
    ),
    JobKind(
        id="entrypoint-resources-unavailable",
        title="The entrypoint's resources never became free",
        error="JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
        untyped=_NOT_SCHEDULED,
        next_step="ask for less for the entrypoint, or for larger pods",
    ),
    JobKind(
        id="job-supervisor-lost",
        title="Ray lost the job's supervisor",
        pattern=r"failed to get job supervisor",
        error="JOB_SUPERVISOR_ACTOR_START_FAILURE",
        untyped=r"Unexpected error occurred: failed to get job supervisor",
        decision=Decision.RETRY_ELSEWHERE,
        next_step="see whether the head restarted; train again on a new cluster",
    ),
    JobKind(
        id="job-parameters-invalid",
        title="Ray refuses the submission's parameters",
        error="JOB_SUPERVISOR_ACTOR_START_FAILURE",
        next_step="correct the entrypoint's resources",
    ),
    JobKind(
        id="job-supervisor-died",
        title="The job's supervisor died",
        error="JOB_SUPERVISOR_ACTOR_DIED",
        untyped=r"Unexpected error occurred: The actor died[^\n]*\s+class_name: JobSupervisor",
        decision=Decision.RETRY_ELSEWHERE,
        next_step="see what happened to its node and its memory",
    ),
    JobKind(
        id="job-supervisor-failed",
        title="Ray failed to run the job",
        error="JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
        decision=Decision.RETRY_ELSEWHERE,
        next_step="read Ray's words",
    ),
    JobKind(
        id="entrypoint-not-started",
        title="The entrypoint could not be started",
        error="JOB_ENTRYPOINT_COMMAND_START_ERROR",
        next_step="correct the entrypoint",
    ),
)

# Ends that people met and nobody settled: they are told as facts, never as a cause.
UNSETTLED = (
    r"Error 205: mapping of buffer object failed",
    r"Current node has no GPU available",
    r"SchedulingCancelled: Actor creation cancelled",
    r"Watchdog caught collective operation timeout",
    r"watchdog got stuck",
)
