"""Pods that are made again and again, that nobody replaces, that wait for themselves, or that their own probe kills."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Decision, Evidence, Finding
from rayflight.snapshot.model import Container, Event, Pod

_AGAIN = 3  # heads that died before it is a loop
_KEPT = 120.0  # seconds after which an operator that replaces Failed pods would have done so
_FUSE = "gke-gcsfuse-sidecar"
_NO_RAY = re.compile(r"\bray: (command )?not found")
_NOT_FOUND = 127
_TOO_OFTEN = 5  # restarts after which this Kubernetes node is not waited for any more
# A probe that got no answer in its time, as the kubelet and its runtimes say it; a refused one is another matter.
_LATE = re.compile(r"timed out|context deadline exceeded|Client\.Timeout")
_PROBES = 20  # failed probes of a head that runs; a healthy start has a few
_ENDED = re.compile(r"ExitCode:(?P<code>\d+),")


def _heads_again(case: Case) -> Iterable[Finding]:
    """With restartPolicy Never, the operator makes another head for every one that dies: for ever."""
    if case.cluster is None or (case.now.ray is not None and case.now.ray.nodes):
        return
    dead = [
        item
        for item in case.events("DeletedHeadPod")
        if "Pod status: Failed" in item.message or "ExitCode" in item.message
    ]
    count = sum(item.count for item in dead)
    if count < _AGAIN:
        return
    code = _ENDED.search(dead[-1].message)
    said = f"; the last one ended with exit code {code['code']}" if code else ""
    yield KINDS["head-recreated-in-a-loop"].finding(
        f"The head of RayCluster {case.now.name} died {count} times between {dead[0].first_at} and "
        f"{dead[-1].last_at}, each "
        f"time before Ray came up{said}{_last_line(case)}",
        objects=(f"raycluster/{case.now.name}",),
        evidence=tuple(quoting.event(item) for item in dead[-2:]),
        since=dead[0].first_at,
    )


def _last_line(case: Case) -> str:
    prefix = f"{case.now.name}-head-"
    texts = [text for name, text in case.now.logs.items() if name.startswith(prefix)]
    return f"; its last line: {quoting.last_lines(texts[-1], 1)}" if texts and texts[-1].strip() else ""


def _not_replaced(case: Case) -> Iterable[Finding]:
    for pod in case.pods:
        if pod.phase == "Failed" and pod.role and case.lasts(_ended_at(pod), _KEPT):
            yield KINDS["failed-pod-not-replaced"].finding(
                f"Pod {pod.name} is Failed since {_ended_at(pod)} ({pod.reason or 'no reason'}), and the operator has "
                "not replaced "
                "it: versions before 1.2 do not, for pods with restartPolicy Always",
                objects=quoting.objects([pod]),
                evidence=(
                    Evidence(object=f"pod {pod.name}", text=f"Failed {pod.reason}: {pod.message}", at=_ended_at(pod)),
                ),
            )


def _ended_at(pod: Pod) -> str | None:
    ends = [item.terminated.finished_at for item in pod.containers if item.terminated and item.terminated.finished_at]
    said = pod.condition("Ready")
    return max(ends, default=said.since if said else None)


def _fuse_deadlock(case: Case) -> Iterable[Finding]:
    """The init container has the mount, the sidecar that serves it starts after the init containers."""
    for pod in case.pods:
        sidecar = next((item for item in pod.containers if item.name == _FUSE), None)
        init = next((item for item in pod.containers if item.init and item.name == "wait-gcs-ready"), None)
        told = [item for item in case.events("Failed", about=pod) if "failed to reserve container name" in item.message]
        if sidecar and not sidecar.init and init and init.state != "terminated" and told:
            yield KINDS["init-waits-for-sidecar-volume"].finding(
                f"Init container wait-gcs-ready of pod {pod.name} mounts a volume that {_FUSE} serves, and {_FUSE} "
                "starts only "
                f"after it: neither ever starts ({quoting.clip(told[-1].message, 200)})",
                objects=quoting.objects([pod]),
                evidence=(quoting.event(told[-1]),),
            )


def _without_ray(case: Case) -> Iterable[Finding]:
    for pod in case.now.pods:
        for item in pod.containers:
            last = item.terminated or item.last
            if last and last.exit_code == _NOT_FOUND and (line := _says_no_ray(case, pod, item)):
                yield KINDS["image-without-ray"].finding(
                    f"Image {item.image} of container {item.name} in pod {pod.name} has no `ray`: "
                    f"{quoting.clip(line[1], 200)}",
                    objects=(*quoting.objects([pod]), f"image/{item.image}"),
                    evidence=(quoting.log(*line), quoting.container(pod, item)),
                    since=last.finished_at,
                )
                return


def _says_no_ray(case: Case, pod: Pod, item: Container) -> tuple[str, str] | None:
    for name, text in case.logs_of(pod):
        found = _NO_RAY.search(text) if name.split("/")[1] == item.name else None
        if found:
            return name, quoting.line_of(found)
    return None


def _too_slow(case: Case) -> Iterable[Finding]:
    """Ray's own time-outs: the image and the parameters are right, the machine was too slow. Restarts often help."""
    for pod in case.pods:
        for item in pod.containers:
            last = item.terminated or item.last
            if last and last.exit_code != 0 and not item.ready and (line := case.gave_up_to_start(pod, item.name)):
                yield KINDS["ray-start-timed-out"].finding(
                    f"Container {item.name} of pod {pod.name} ended {item.restarts or 1} times, for Ray did not start "
                    f"in the time that it gives itself: {quoting.clip(line[1], 200)}",
                    objects=quoting.objects([pod]),
                    evidence=(quoting.log(*line), quoting.container(pod, item)),
                    since=last.finished_at,
                    decision=Decision.RETRY_ELSEWHERE if item.restarts >= _TOO_OFTEN else Decision.WAIT,
                )
                return


def _probe_kills(case: Case) -> Iterable[Finding]:
    for pod in case.pods:
        told = [item for item in case.events("Killing", about=pod) if "failed liveness probe" in item.message]
        if told:
            ends = pod.role == "head" and case.flying
            yield _killed(pod, told[-1], Decision.RETRY_ELSEWHERE if ends else Decision.WAIT)


def _killed(pod: Pod, told: Event, decision: Decision) -> Finding:
    return KINDS["liveness-probe-killed"].finding(
        f"The kubelet restarted a container of pod {pod.name} at {told.last_at}, for its liveness probe failed: "
        f"{quoting.clip(told.message, 200)}",
        objects=quoting.objects([pod]),
        evidence=(quoting.event(told),),
        decision=decision,
    )


def _overloaded(case: Case) -> Iterable[Finding]:
    """Many failed probes of a head that has never restarted and still serves: busy, not broken."""
    head = case.now.head
    main = next((item for item in head.containers if not item.init), None) if head else None
    if head is None or main is None or main.state != "running" or main.restarts:
        return
    told = [item for item in case.events("Unhealthy", about=head) if "probe" in item.message]
    count = sum(item.count for item in told)
    late = [item for item in told if _LATE.search(item.message)]
    if count >= _PROBES and told and (case.now.ray is not None or late):
        workers = len(case.now.workers())
        yield KINDS["head-overloaded"].finding(
            f"Probes of head pod {head.name} failed {count} times, and its container runs on without a restart (cpu "
            "limit "
            f"{main.limits.get('cpu', 'none')}, {workers} workers): it is too busy to answer in time, it did not crash",
            objects=quoting.objects([head]),
            evidence=(quoting.event((late or told)[-1]),),
            since=told[0].first_at,
        )


RULES = (
    Rule(ids=("head-recreated-in-a-loop",), depth=Depth.CONTAINER, check=_heads_again, past=True),
    Rule(ids=("failed-pod-not-replaced",), depth=Depth.CLUSTER, check=_not_replaced),
    Rule(ids=("init-waits-for-sidecar-volume",), depth=Depth.NODE, check=_fuse_deadlock),
    Rule(ids=("image-without-ray",), depth=Depth.NODE, check=_without_ray),
    Rule(ids=("ray-start-timed-out",), depth=Depth.CONTAINER, check=_too_slow),
    Rule(ids=("liveness-probe-killed",), depth=Depth.CONTAINER, check=_probe_kills, past=True),
    Rule(ids=("head-overloaded",), depth=Depth.CLUSTER, check=_overloaded),
)
