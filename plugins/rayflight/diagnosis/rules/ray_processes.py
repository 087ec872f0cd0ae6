"""Ray's own processes: a GCS or raylet that died inside its pod, a head that came back, workers that did not follow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.diagnosis.out_of_memory import out_of_memory
from rayflight.findings import Decision, Evidence, Finding
from rayflight.snapshot.model import Container, Job, Pod, RayNode
from rayflight.snapshot.readiness import map_pods
from rayflight.snapshot.times import seconds_between
from rayflight.states import JobStatus

# Printed by `ray start --block` (ray/scripts/scripts.py) before it ends the container.
_EXITED = re.compile(
    r"Some Ray subprocesses exited unexpectedly:?\s*\n(?:.*\n){0,3}?.*?"
    r"(?P<process>gcs_server|raylet)\s*\[exit code=(?P<code>-?\d+|[^\]]*)\]"
)
_KILLED = re.compile(r"^-?9\b|SIGKILL")
_DISK = re.compile(r"(is over \d+% full, available space|OutOfDiskError|Local disk is full)")
_SLOW_STORE = re.compile(r"(object store is using \S+ instead of /dev/shm)")
# services.py (wait_for_redis_to_start) and redis_context.cc of Ray
_NO_STORE = re.compile(r"Unable to connect to Redis|Could not establish connection to Redis|Failed to connect to Redis")
_HEARTBEATS = 60.0  # seconds between the end of a raylet and Ray's word that its node is dead
_ZOMBIE = 120.0  # seconds with a Ready head after which a worker that meant to come back has come


def _exited(case: Case) -> Iterable[Finding]:
    for pod in case.pods:
        for name, text in case.logs_of(pod):
            found = _EXITED.search(text)
            if found:
                yield _dead_process(case, pod, name, found)
                break


def _dead_process(case: Case, pod: Pod, name: str, found: re.Match[str]) -> Finding:
    process, code = found["process"], found["code"]
    killed = bool(_KILLED.search(code))
    main = _main(pod)
    limit = main.limits.get("memory", "none") if main else "unknown"
    why = (
        f"; somebody killed it (SIGKILL), who is not known: Kubernetes reports no kill for memory (limit {limit}), "
        "but says "
        "nothing either when only a process of a container is killed for it"
        if killed
        else ""
    )
    last = main.last or main.terminated if main else None
    if main and last and last.reason == "OOMKilled" and last.exit_code != 137:
        # By itself it says only that some process was killed at some time; here one of Ray's took the container along.
        what = f"a process of container {main.name} (Ray's {process} ended with exit code {code}, and with it the rest)"
        memory = out_of_memory(pod, main, last, what)
        return replace(memory, evidence=(quoting.log(name, found[0]), *memory.evidence))
    kind = KINDS["gcs-died" if process == "gcs_server" else "raylet-died"]
    fatal = case.flying if pod.role == "head" else _job_failed(case)
    return kind.finding(
        f"Ray's process {process} in pod {pod.name} ended with exit code {code}{why}; Ray then ended the container",
        objects=quoting.objects([pod]),
        evidence=(quoting.log(name, found[0]), *((quoting.container(pod, main),) if main and last else ())),
        since=last.finished_at if last else None,
        decision=Decision.RETRY_ELSEWHERE if fatal else None,
    )


def _main(pod: Pod) -> Container | None:
    return next((item for item in pod.containers if not item.init), None)


def _restarted(case: Case) -> Iterable[Finding]:
    """A worker's container ended once and came back: its Ray node died with it, and whatever ran there."""
    dead = [item for item in (case.now.ray.nodes if case.now.ray else ()) if item.state == "DEAD"]
    for pod in case.pods:
        main = _main(pod)
        last = main.last if main else None
        if pod.role != "worker" or main is None or last is None or not last.exit_code or main.restarts != 1:
            continue
        node = next((it for it in dead if (it.pod or pod.name) == pod.name and (it.pod or it.ip == pod.ip)), None)
        gap = seconds_between(last.finished_at, node.ended_at) if node else None
        if node and gap is not None and abs(gap) <= _HEARTBEATS and last.reason != "OOMKilled":
            yield KINDS["worker-container-restarted"].finding(
                f"Container {main.name} of worker pod {pod.name} ended at {last.finished_at} with exit code "
                f"{last.exit_code} "
                f"({last.reason or 'no reason'}) and was restarted in place; its Ray node {node.id[:8]} is DEAD: "
                f"{quoting.clip(node.why, 200) or 'Ray gives no reason'}",
                objects=quoting.objects([pod]),
                evidence=(quoting.container(pod, main), _quoted(node)),
                since=last.finished_at,
                decision=Decision.RETRY_ELSEWHERE if _job_failed(case) else None,
            )


def _job_failed(case: Case) -> bool:
    return case.job is not None and case.job.status is JobStatus.FAILED


def _quoted(node: RayNode) -> Evidence:
    return Evidence(object=f"Ray node {node.id[:8]} ({node.ip})", text=f"DEAD: {node.why}", at=node.ended_at)


def _gcs_silent(case: Case) -> Iterable[Finding]:
    ray, head = case.now.ray, case.now.head
    if ray is None or ray.gcs_healthy is not False:
        return
    yield KINDS["gcs-unhealthy"].finding(
        f"Ray's dashboard of session {ray.session} answers, but its GCS does not: nothing can be submitted, and what "
        "the "
        "dashboard says of jobs is old",
        objects=quoting.objects([head] if head else []),
        evidence=(Evidence(object="/api/gcs_healthz", text="not healthy", at=case.now.taken_at),),
    )


def _driver_lost(case: Case) -> Iterable[Finding]:
    """With GCS fault tolerance the session outlives its head, the driver does not; Ray goes on saying RUNNING."""
    job = case.job
    if job is None or job.status.ended or not job.driver_node_id or case.now.ray is None:
        return
    node = next((item for item in case.now.ray.nodes if item.id == job.driver_node_id), None)
    if node is not None and node.state == "DEAD":
        yield KINDS["driver-node-dead"].finding(
            f"Submission {job.id} is {job.status} in Ray's words only: its driver ran on Ray node {node.id[:8]} "
            f"({node.ip}), "
            f"which is DEAD since {node.ended_at}: {quoting.clip(node.why, 200) or 'Ray gives no reason'}",
            objects=(f"submission/{job.id}", *((f"pod/{node.pod}",) if node.pod else ())),
            evidence=(
                Evidence(object=f"Ray node {node.id[:8]} ({node.ip})", text=f"DEAD: {node.why}", at=node.ended_at),
            ),
        )


def _zombies(case: Case) -> Iterable[Finding]:
    """Their containers are older than the head that serves, and they neither come back to it nor end."""
    head, ray = case.now.head, case.now.ray
    served = head.condition("Ready") if head else None
    if head is None or ray is None or not case.can_see("ray.nodes") or served is None or served.status != "True":
        return
    joined = map_pods(case.now).candidates
    lost = [pod for pod in case.pods if pod.role == "worker" and not joined.get(pod.name) and _older(pod, head)]
    if lost and case.lasts(served.since, _ZOMBIE):
        gpus = sum(int(pod.limit(name)) for pod in lost for name in _gpu_names(pod))
        yield KINDS["zombie-workers"].finding(
            f"{quoting.pods_named(lost)} ran before the head that serves since {served.since}, and neither came back "
            "to it "
            f"nor ended: Ray does not know them, and they hold {gpus} GPUs",
            objects=quoting.objects(lost),
            evidence=(
                quoting.condition(f"pod {head.name}", served),
                *(quoting.container(pod, main) for pod in lost[:2] if (main := _main(pod))),
            ),
            since=served.since,
        )


def _older(pod: Pod, head: Pod) -> bool:
    mine, its = _main(pod), _main(head)
    if mine is None or its is None or mine.state != "running" or not mine.started_at or not its.started_at:
        return False
    return mine.started_at < its.started_at


def _gpu_names(pod: Pod) -> set[str]:
    return {name for item in pod.containers for name in item.limits if name.endswith("gpu")}


def _disk(case: Case) -> Iterable[Finding]:
    for name, text in case.now.logs.items():
        found = _DISK.search(text)
        if found:
            job = case.job
            failed = job is not None and job.status is JobStatus.FAILED and "OutOfDiskError" in text
            yield KINDS["ray-disk-full"].finding(
                f"Ray's disk fills up: {quoting.clip(quoting.line_of(found), 300)}",
                objects=(*_object_of(name), *((f"submission/{job.id}",) if job and failed else ())),
                evidence=(quoting.log(name, quoting.line_of(found)),),
                decision=Decision.FAIL if failed else Decision.WAIT,
            )
            return


def _slow_store(case: Case) -> Iterable[Finding]:
    for name, text in case.now.logs.items():
        found = _SLOW_STORE.search(text)
        if found:
            yield KINDS["object-store-on-disk"].finding(
                f"Ray's object store is not in shared memory: {quoting.clip(quoting.line_of(found), 300)}",
                objects=_object_of(name),
                evidence=(quoting.log(name, quoting.line_of(found)),),
            )
            return


def _object_of(log: str) -> tuple[str, ...]:
    kind, slash, rest = log.partition("/")
    return () if not slash else (f"submission/{rest}",) if kind == "driver" else (f"pod/{kind}",)


def _store(case: Case) -> Iterable[Finding]:
    """GCS fault tolerance: the head does not come up while the Redis that keeps its state does not answer."""
    head = case.now.head
    main = _main(head) if head else None
    if head is None or main is None or main.ready or not (main.last or main.terminated):
        return
    for name, text in case.logs_of(head):
        found = _NO_STORE.search(text)
        if found:
            yield KINDS["gcs-store-unreachable"].finding(
                f"The head {head.name} cannot reach the Redis that keeps its state: "
                f"{quoting.clip(quoting.line_of(found), 300)}",
                objects=quoting.objects([head]),
                evidence=(quoting.log(name, quoting.line_of(found)), quoting.container(head, main)),
            )
            return


def _crashed(case: Case) -> Iterable[Finding]:
    """Ray's memory monitor says itself that it killed; the kernel's kill is only proven by Kubernetes."""
    job = case.job
    if job is None or job.status is not JobStatus.FAILED or "WorkerCrashedError" not in case.driver_log(job):
        return
    killed = [
        (pod, item)
        for pod in case.now.pods
        for item in pod.containers
        for ending in (item.terminated, item.last)
        if ending and ending.reason == "OOMKilled"
    ]
    if killed:
        yield _memory(job, *killed[0])


def _memory(job: Job, pod: Pod, item: Container) -> Finding:
    return KINDS["worker-process-killed-for-memory"].finding(
        f"A worker process of submission {job.id} died (WorkerCrashedError), and Kubernetes confirms why: container "
        f"{item.name} of pod {pod.name} was OOMKilled at its limit of {item.limits.get('memory', 'no limit')}",
        objects=(f"submission/{job.id}", *quoting.objects([pod])),
        evidence=(quoting.container(pod, item), quoting.job(job)),
        since=job.ended_at,
    )


RULES = (
    Rule(ids=("gcs-store-unreachable",), depth=Depth.NODE, check=_store),
    Rule(ids=("gcs-died", "raylet-died", "container-out-of-memory"), depth=Depth.CONTAINER, check=_exited, past=True),
    Rule(ids=("worker-container-restarted",), depth=Depth.CONTAINER, check=_restarted, past=True),
    Rule(ids=("gcs-unhealthy",), depth=Depth.CLUSTER, check=_gcs_silent),
    Rule(ids=("driver-node-dead",), depth=Depth.JOB, check=_driver_lost, ends_jobs=True),
    Rule(ids=("zombie-workers",), depth=Depth.CLUSTER, check=_zombies),
    Rule(ids=("ray-disk-full",), depth=Depth.CLUSTER, check=_disk),
    Rule(ids=("object-store-on-disk",), depth=Depth.CLUSTER, check=_slow_store),
    Rule(ids=("worker-process-killed-for-memory",), depth=Depth.JOB, check=_crashed, ends_jobs=True),
)
