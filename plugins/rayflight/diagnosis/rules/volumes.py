"""Claims that are missing or unbound, volumes that cannot be mounted, sandboxes that cannot be made."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.model import Claim, Event, Pod

_NO_OBJECT = re.compile(r'(?:secret|configmap) "[^"]+" not found', re.IGNORECASE)
# The kubelet's summary of all volumes of a pod; what is wrong with one of them stands in an event of its own.
_SUMMARY = re.compile(r"Unable to attach or mount volumes|unmounted volumes=")
_ENOUGH = 3  # failures after which it is no hiccup of a node that has just begun with the pod


def _missing(case: Case) -> Iterable[Finding]:
    if not case.can_see("claims"):
        return
    there = {claim.name for claim in case.now.claims}
    wanted = {name: pod for pod in case.pods for name in pod.claims if name not in there}
    for name in wanted:
        pods = [pod for pod in case.pods if name in pod.claims]
        yield Finding(
            id="claim-missing",
            title="A PersistentVolumeClaim does not exist",
            layer=Layer.KUBERNETES,
            summary=(
                f"{quoting.pods_named(pods)} needs PersistentVolumeClaim {name}, "
                f"which is not in namespace {case.now.namespace}"
            ),
            next_step="create the claim there, or correct its name in the spec",
            decision=Decision.FAIL,
            objects=(f"persistentvolumeclaim/{name}", *quoting.objects(pods)),
            evidence=(Evidence(object=f"pod {pods[0].name}", text=f"volume of claim {name}", at=pods[0].created_at),),
            since=pods[0].created_at,
        )


def _unbound(case: Case) -> Iterable[Finding]:
    for claim in case.now.claims:
        pods = [pod for pod in case.pods if claim.name in pod.claims]
        if not pods or claim.phase == "Bound" or not claim.phase:
            continue
        told = [item for item in case.now.events if item.kind == "PersistentVolumeClaim" and item.name == claim.name]
        found = _why_unbound(claim, pods, told)
        if found:
            yield found


def _why_unbound(claim: Claim, pods: list[Pod], told: list[Event]) -> Finding | None:
    failed = [item for item in told if item.type == "Warning" or item.reason == "FailedBinding"]
    words = [found.message for pod in pods if (found := pod.condition("PodScheduled"))]
    stuck = any("PersistentVolumeClaim" in text for text in words)
    if claim.phase != "Lost" and not failed and not stuck:
        return None  # a claim that waits for its first pod is Pending by design
    said = f": {quoting.clip(failed[-1].message, 300)}" if failed else ""
    evidence = (
        Evidence(
            object=f"PersistentVolumeClaim {claim.name}",
            text=f"phase {claim.phase}, class {claim.storage_class or 'none'}",
        ),
        *(quoting.event(item) for item in failed[-1:]),
    )
    hopeless = claim.phase == "Lost" or any(_hopeless(item) for item in failed)
    return Finding(
        id="claim-unbound",
        title="A PersistentVolumeClaim is not bound",
        layer=Layer.KUBERNETES,
        summary=f"PersistentVolumeClaim {claim.name} of {quoting.pods_named(pods)} is {claim.phase}{said}",
        next_step="correct the storage class, or make a volume that matches the claim",
        decision=Decision.FAIL if hopeless else Decision.WAIT,
        objects=(f"persistentvolumeclaim/{claim.name}", *quoting.objects(pods)),
        evidence=evidence,
        since=failed[0].first_at if failed else pods[0].created_at,
    )


def _hopeless(item: Event) -> bool:
    """No class, an unknown class, or a provisioner that has said no again and again."""
    nobody = "no storage class is set" in item.message or (
        "storageclass" in item.message and "not found" in item.message
    )
    return nobody or (item.reason == "ProvisioningFailed" and item.count >= _ENOUGH)


def _mounts(case: Case) -> Iterable[Finding]:
    for pod in case.pods:
        if pod.phase != "Pending" or not pod.node:
            continue
        told = case.events("FailedMount", "FailedAttachVolume", "FailedMapVolume", about=pod)
        often = [item for item in told if item.count >= _ENOUGH or "Multi-Attach" in item.message]
        if any(_NO_OBJECT.search(item.message) for item in often):
            continue  # a missing Secret or ConfigMap: said of it by name
        if often:
            said = next((item for item in reversed(often) if not _SUMMARY.search(item.message)), often[-1])
            claims = f" (claim {quoting.listed(pod.claims)})" if pod.claims else ""
            evidence = tuple(quoting.event(item) for item in (said, *(it for it in often[-1:] if it is not said)))
            yield Finding(
                id="volume-not-mounted",
                title="A volume cannot be mounted",
                layer=Layer.KUBERNETES,
                summary=(
                    f"Pod {pod.name} on node {pod.node} waits for a volume{claims}: {quoting.clip(said.message, 300)}"
                ),
                next_step="check the volume, its server and whether another node still has it attached",
                decision=Decision.RETRY_AFTER,
                objects=(*quoting.objects([pod]), f"node/{pod.node}"),
                evidence=evidence,
                since=said.first_at,
                retry_after=120.0,
            )


def _sandboxes(case: Case) -> Iterable[Finding]:
    for pod in case.pods:
        told = case.events("FailedCreatePodSandBox", "NetworkNotReady", about=pod)
        if pod.phase == "Pending" and pod.node and sum(item.count for item in told) >= _ENOUGH:
            evidence = (quoting.event(told[-1]),)
            yield Finding(
                id="sandbox-not-made",
                title="The node cannot make the pod's sandbox",
                layer=Layer.KUBERNETES,
                summary=f"Node {pod.node} cannot start pod {pod.name}: {quoting.clip(told[-1].message, 300)}",
                next_step="check the network plugin and the container runtime (runtime class) on that node",
                decision=Decision.RETRY_ELSEWHERE,
                objects=(*quoting.objects([pod]), f"node/{pod.node}"),
                evidence=evidence,
                since=told[0].first_at,
            )


RULES = (
    Rule(ids=("claim-missing",), depth=Depth.ADMISSION, check=_missing),
    Rule(ids=("claim-unbound",), depth=Depth.ADMISSION, check=_unbound),
    Rule(ids=("volume-not-mounted",), depth=Depth.NODE, check=_mounts),
    Rule(ids=("sandbox-not-made",), depth=Depth.NODE, check=_sandboxes),
)
