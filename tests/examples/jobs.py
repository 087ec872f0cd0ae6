"""How submissions end, or do not."""

from __future__ import annotations

from dataclasses import replace

from rayflight.states import JobStatus
from tests.examples.shape import NOTED, PODS, Example, failed, running, show
from tests.made_up import NODES, READY, at, ended, head, job, ray, with_container, worker

TRACEBACK = """Traceback (most recent call last):
  File "/app/train.py", line 40, in <module>
    main()
  File "/app/train.py", line 12, in main
    data = load(config["path"])
  File "/usr/lib/python3.11/json/__init__.py", line 293, in load
    return loads(fp.read())
KeyError: 'path'
"""
AGAIN = """[FailurePolicy] RETRY
  Source: worker group
  Error count: {} (max allowed: inf)
Error: Training failed due to worker errors:
ValueError: bad batch {}
"""
WATCHDOG = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={number}, OpType={what}, NumelIn=1, Timeout(ms)=600000) ran for 600015 milliseconds before "
    "timing out."
)
LAST = (
    "[rank{rank}]:[E] [PG ID 0 Rank {rank}] Timeout at NCCL work: 7, last enqueued NCCL work: {last}, "
    "last completed NCCL work: 6."
)


def by_error(error, message="x"):
    return show(**failed(message, error_type=error))


def by_log(line, *says, **changes):
    return show(
        *says, **failed("Job entrypoint command failed with exit code 1", log=line, driver_exit_code=1, **changes)
    )


def ended_with(code, message="last available logs\nboom", **changes):
    return show(**failed(message, driver_exit_code=code, **changes))


BEHIND = "\n".join(
    [
        *(WATCHDOG.format(rank=rank, number=7, what="ALLREDUCE") for rank in (0, 1)),
        *(LAST.format(rank=rank, last=8) for rank in (0, 1)),
        LAST.format(rank=2, last=6),
    ]
)
DIFFER = "\n".join(
    WATCHDOG.format(rank=rank, number=7, what=what) for rank, what in ((0, "ALLREDUCE"), (1, "ALLGATHER"))
)
OOM_POD = with_container(worker(2), "ray-worker", restarts=1, last=ended(137, "OOMKilled"))

EXAMPLES: dict[str, Example] = {
    "ray-memory-monitor-killed": by_log("2 worker(s) were killed due to the node running low on memory."),
    "gpu-out-of-memory": by_log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"),
    "shared-memory-too-small": by_log("RuntimeError: DataLoader worker (pid 125) is killed by signal: Bus error."),
    "driver-has-no-gpu": by_log("RuntimeError: No CUDA GPUs are available"),
    "ray-client-mismatch": by_log("Client Ray installation incompatible with server: client is 2022-12-06"),
    "ray-version-mismatch-of-driver": by_log("RuntimeError: Version mismatch: The cluster was started with:"),
    "worker-process-died": by_log("ray.exceptions.WorkerCrashedError: The worker died unexpectedly"),
    "runtime-env-failed": by_error("RUNTIME_ENV_SETUP_FAILURE"),
    "runtime-env-no-network": by_error("RUNTIME_ENV_SETUP_FAILURE", "pip: Failed to establish a new connection"),
    "entrypoint-resources-unavailable": by_error("JOB_SUPERVISOR_ACTOR_START_TIMEOUT"),
    "job-supervisor-lost": by_error(
        "JOB_SUPERVISOR_ACTOR_START_FAILURE", "Unexpected error occurred: failed to get job supervisor."
    ),
    "job-parameters-invalid": by_error("JOB_SUPERVISOR_ACTOR_START_FAILURE", "num_gpus cannot be negative"),
    "job-supervisor-died": by_error("JOB_SUPERVISOR_ACTOR_DIED"),
    "job-supervisor-failed": by_error("JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"),
    "entrypoint-not-started": by_error("JOB_ENTRYPOINT_COMMAND_START_ERROR"),
    "driver-exception": by_log(TRACEBACK, "KeyError: 'path'", "/app/train.py, line 12, in main"),
    "nccl-rank-behind": by_log(BEHIND, "rank 2 stopped first", "rank 0, 1 waited"),
    "nccl-collectives-differ": by_log(DIFFER, "rank 0 in ALLREDUCE", "rank 1 in ALLGATHER"),
    "entrypoint-failed": ended_with(7),
    "entrypoint-not-found": ended_with(127),
    "driver-killed": ended_with(-9),
    "submission-failed": show(
        "Watchdog caught",
        nodes=(NODES[0], NODES[1], replace(NODES[2], conditions=(replace(READY, status="Unknown", since=at(30)),))),
        **failed("exit code 1", log=WATCHDOG.format(rank=0, number=7, what="ALLREDUCE"), driver_exit_code=1),
    ),
    "driver-crashed": ended_with(-11, "last available logs\nFatal Python error: Segmentation fault"),
    "job-stopped": show(
        ray=ray(*PODS, jobs=(job(JobStatus.STOPPED, ended_at=at(50), message="Job was intentionally stopped."),))
    ),
    "submission-deleted": show("somebody deleted it", noted=NOTED),
    "entrypoint-exceeds-nodes": show(
        "its entrypoint",
        ray=ray(
            *PODS,
            jobs=(job(JobStatus.PENDING, ray_job=""),),
            pending_demands=("{'GPU': 8.0}: 1+ pending tasks/actors",),
        ),
    ),
    "demand-exceeds-nodes": show(
        "a task or actor",
        ray=ray(*PODS, jobs=(job(),), pending_demands=("{'GPU': 8.0}: 1+ pending tasks/actors",)),
    ),
    "train-restarts-without-end": show(
        "3 times", "bad batch", **running(log="".join(AGAIN.format(n, n * 17) for n in (1, 2, 3)))
    ),
    "worker-process-killed-for-memory": show(
        "Kubernetes confirms",
        pods=(head(), worker(1), OOM_POD),
        **failed(
            "exit code 1", log="ray.exceptions.WorkerCrashedError: The worker died unexpectedly", driver_exit_code=1
        ),
    ),
}
