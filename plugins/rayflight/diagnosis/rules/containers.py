"""Containers that cannot start, keep ending, or run out of memory. Init containers are read first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.out_of_memory import out_of_memory
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.model import Container, Event, Pod, Termination

_AUTOSCALER = "autoscaler"  # KubeRay's sidecar beside the head: Ray itself runs on without it
_NEVER_RAN = ("StartError", "ContainerCannotRun")
_KILLED = 137  # 128 + SIGKILL; OOMKilled with another code is an earlier event that the runtime remembers, not the end
_LOOP_RESTARTS = 2  # one restart also comes from a head that restarted: a second is a loop
_MISSING = re.compile(r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found', re.IGNORECASE)
_KEY = re.compile(r"couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) (?P<name>\S+)")
_BACKS_OFF = "Back-off restarting failed container"  # the kubelet uses the reason BackOff for images as well


def _each(case: Case) -> Iterator[tuple[Pod, Container]]:
    for pod in case.pods:
        for item in sorted(pod.containers, key=lambda it: not it.init):
            yield pod, item


def _missing_config(case: Case) -> Iterable[Finding]:
    """The event comes up to 14 s before the status, and volumes say it only there."""
    found: dict[str, list[tuple[Pod, Evidence]]] = {}
    for pod in case.pods:
        for words, sign in _config_words(case, pod):
            name = _absent(words)
            if name:
                found.setdefault(name, []).append((pod, sign))
    for name, signs in found.items():
        pods = list({pod.uid: pod for pod, _ in signs}.values())
        evidence = tuple(item for _, item in signs[:2])
        yield Finding(
            id="secret-or-configmap-missing",
            title="A Secret or ConfigMap that the pods need is missing",
            layer=Layer.KUBERNETES,
            summary=f"{quoting.pods_named(pods)} cannot start: {name} in namespace {case.now.namespace}",
            next_step="create it there, or correct the name in the spec",
            decision=Decision.FAIL,
            objects=quoting.objects(pods),
            evidence=evidence,
            since=quoting.earliest(evidence),
        )


def _config_words(case: Case, pod: Pod) -> Iterator[tuple[str, Evidence]]:
    for item in pod.containers:
        if item.state == "waiting" and item.reason == "CreateContainerConfigError":
            yield item.message, quoting.container(pod, item)
    if pod.phase != "Running":
        for told in case.events("Failed", "FailedMount", about=pod):
            yield told.message, quoting.event(told)


def _absent(words: str) -> str:
    named, key = _MISSING.search(words), _KEY.search(words)
    # Just after a namespace is made, its root certificate is not there yet: the kubelet tries again.
    if named and named["name"] != "kube-root-ca.crt":
        return f"{named['kind'].lower()} {named['name']} does not exist"
    return f"key {key['key']} does not exist in {key['kind']} {key['name']}" if key else ""


def _cannot_start(case: Case) -> Iterable[Finding]:
    for pod, item in _each(case):
        broken = item.reason in (
            "CreateContainerError",
            "RunContainerError",
            "CreateContainerConfigError",
            "PostStartHookError",
        )
        hook = _hook(case, pod, item)
        if hook:
            yield _not_started(
                pod,
                item,
                f"its postStart hook fails, and the kubelet ends it for that ({hook.message})",
                quoting.event(hook),
            )
            return
        started = item.terminated or item.last
        wrong_command = started is not None and started.reason in _NEVER_RAN
        if (item.state == "waiting" and broken and not _absent(item.message)) or wrong_command:
            words = (started.message if started and wrong_command else "") or item.message
            yield _not_started(pod, item, quoting.clip(words, 300))
            return


def _not_started(pod: Pod, item: Container, words: str, *told: Evidence) -> Finding:
    evidence = (quoting.container(pod, item), *told)
    return Finding(
        id="container-cannot-start",
        title="A container cannot be started",
        layer=Layer.USER,
        summary=f"Container {item.name} of pod {pod.name} cannot be started: {words}",
        next_step="correct the container's command, user, hooks or mounts",
        decision=Decision.FAIL,
        objects=quoting.objects([pod]),
        evidence=evidence,
        since=evidence[0].at or pod.created_at,
    )


def _hook(case: Case, pod: Pod, item: Container) -> Event | None:
    """The kubelet ends a container whose hook failed: what its log says last is not why."""
    told = case.events("FailedPostStartHook", about=pod) if not item.init and not item.ready else ()
    return next(iter(told), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    pod: Pod
    item: Container
    last: Termination
    told: tuple[Event, ...]


def _crash_loops(case: Case) -> Iterable[Finding]:
    """Restarts and the last end are stable; the state flips between waiting, running and terminated."""
    loops = [loop for pod, item in _each(case) if (loop := _loop(case, pod, item))]
    shapes: dict[tuple[str, str, int], list[_Loop]] = {}
    for loop in loops:
        shapes.setdefault((loop.pod.group, loop.item.name, loop.last.exit_code), []).append(loop)
    return [_looping(case, same) for same in shapes.values()]


def _loop(case: Case, pod: Pod, item: Container) -> _Loop | None:
    last = item.terminated or item.last
    if last is None or last.exit_code == 0 or item.ready or item.restarts < 1 or _out_of_memory(last):
        return None
    if last.reason in _NEVER_RAN and last.message:  # it never began: said with the runtime's words
        return None
    if pod.role == "worker" and not item.init and not _head_is_up(case):
        return None
    if _hook(case, pod, item):
        return None
    if case.gave_up_to_start(pod, item.name):  # too slow, not wrong: a kind of its own
        return None
    told = tuple(
        event
        for event in case.events("BackOff", about=pod)
        if _BACKS_OFF in event.message and item.name in event.message
    )
    if item.reason == "CrashLoopBackOff" or item.restarts >= _LOOP_RESTARTS or told:
        return _Loop(pod=pod, item=item, last=last, told=told)
    return None


def _head_is_up(case: Case) -> bool:
    """`ray start` of a worker gives up and ends with 1 while there is no head to join: no fault of its own."""
    return case.now.head is None or all(item.ready for item in case.now.head.containers if not item.init)


def _looping(case: Case, loops: list[_Loop]) -> Finding:
    first = loops[0]
    pods = [loop.pod for loop in loops]
    log = _last_log(case, first.pod, first.item) or quoting.last_lines(first.last.message)
    said = f"; its last lines: {log}" if log else "; its log was not read, the reason stands there"
    evidence = (quoting.container(first.pod, first.item), *(quoting.event(item) for item in first.told[-1:]))
    beside = "; scaling is off, a training may still run" if first.item.name == _AUTOSCALER else ""
    kind = "init container" if first.item.init else "container"
    return Finding(
        id="crash-loop",
        title="A container keeps ending",
        layer=Layer.USER,
        summary=(
            f"CrashLoopBackOff: {kind} {first.item.name} of {quoting.pods_named(pods)} exited with exit code "
            f"{first.last.exit_code} ({first.last.reason or 'no reason'}), {first.item.restarts} restarts{beside}{said}"
        ),
        next_step="read the container's previous log; correct its start parameters, image or environment",
        decision=Decision.WAIT if beside else Decision.FAIL,
        objects=quoting.objects(pods),
        evidence=evidence,
        since=first.told[0].first_at if first.told else first.last.finished_at,
    )


def _last_log(case: Case, pod: Pod, item: Container) -> str:
    key = f"{pod.name}/{item.name}"
    return quoting.last_lines(case.now.logs.get(f"{key}/previous") or case.now.logs.get(key) or "", 5)


def _memory(case: Case) -> Iterable[Finding]:
    for pod, item in _each(case):
        last = item.terminated or item.last
        if last is not None and _out_of_memory(last):
            kind = "init container" if item.init else "container"
            yield out_of_memory(pod, item, last, f"{kind} {item.name}")


def _out_of_memory(last: Termination) -> bool:
    return last.reason == "OOMKilled" and last.exit_code == _KILLED


RULES = (
    Rule(ids=("secret-or-configmap-missing",), depth=Depth.ADMISSION, check=_missing_config),
    Rule(ids=("container-cannot-start",), depth=Depth.CONTAINER, check=_cannot_start),
    Rule(ids=("crash-loop",), depth=Depth.CONTAINER, check=_crash_loops),
    Rule(ids=("container-out-of-memory",), depth=Depth.CONTAINER, check=_memory, past=True),
)
