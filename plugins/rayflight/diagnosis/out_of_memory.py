"""Containers that ended for want of memory: one finding, whoever saw it."""

from __future__ import annotations

from rayflight.diagnosis import quoting
from rayflight.findings import Decision, Finding, Layer
from rayflight.snapshot.model import Container, Pod, Termination


def out_of_memory(pod: Pod, item: Container, last: Termination, what: str) -> Finding:
    """What ended for want of memory, by Kubernetes' own word for it."""
    limit = item.limits.get("memory", "no limit")
    injected = " (KubeRay gives this init container 256Mi)" if item.name == "wait-gcs-ready" else ""
    return Finding(
        id="container-out-of-memory",
        title="A container ran out of memory",
        layer=Layer.KUBERNETES,
        summary=(
            f"The kernel killed {what} of pod {pod.name} at {last.finished_at} (OOMKilled, exit code "
            f"{last.exit_code}): its memory limit is {limit}{injected}; /dev/shm counts against "
            f"it{_left(pod, item)}"
        ),
        next_step="raise the memory limit or use less (object store, data loader workers, batch size)",
        decision=Decision.FAIL,
        objects=quoting.objects([pod]),
        evidence=(quoting.container(pod, item),),
        since=last.finished_at,
    )


def _left(pod: Pod, item: Container) -> str:
    """A pod with restartPolicy Never whose other containers run on: Running in name only."""
    if item.terminated is None or pod.phase != "Running" or pod.restart_policy != "Never" or item.init:
        return ""
    return "; nothing restarts it (restartPolicy Never), and the pod goes on as Running with its other containers"
