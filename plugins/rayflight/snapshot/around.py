"""Raw objects that stand around a cluster (queues, gangs, policies, RayJobs) to facts. Pure, as ``kubernetes`` is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayflight.snapshot.conditions import Strings
from rayflight.snapshot.kubernetes import Raw, conditions, deleting_since
from rayflight.snapshot.surroundings import (
    AdmissionCheck,
    FlavorQuota,
    Gang,
    LimitRange,
    NetworkPolicy,
    Queue,
    QueuePlace,
    RayJob,
    Workload,
)
from rayflight.snapshot.times import instant


def limit_range(raw: Raw) -> LimitRange:
    """A LimitRange: its entry for containers."""
    limits = (raw.get("spec") or {}).get("limits") or ()
    entry: Raw = next((item for item in limits if item.get("type") == "Container"), {})
    return LimitRange(
        name=raw["metadata"]["name"],
        defaults=_strings(entry.get("default")),
        minimum=_strings(entry.get("min")),
        maximum=_strings(entry.get("max")),
    )


def _strings(given: Mapping[str, Any] | None) -> Strings:
    return {name: str(value) for name, value in (given or {}).items()}


def workload(raw: Raw) -> Workload:
    """A Workload of Kueue."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    owner: Raw = next(iter(meta.get("ownerReferences") or ()), {})
    requeue = status.get("requeueState") or {}
    told = (status.get("schedulingStats") or {}).get("evictions") or ()
    return Workload(
        name=meta["name"],
        owner=owner.get("uid") or (meta.get("labels") or {}).get("kueue.x-k8s.io/job-uid", ""),
        owner_kind=owner.get("kind") or "",
        owner_name=owner.get("name") or "",
        queue=spec.get("queueName") or "",
        cluster_queue=(status.get("admission") or {}).get("clusterQueue") or "",
        priority=int(spec.get("priority") or 0),
        active=spec.get("active", True) is not False,
        created_at=instant(meta.get("creationTimestamp")),
        deleting_since=deleting_since(meta),
        finalizers=tuple(meta.get("finalizers") or ()),
        conditions=conditions(status),
        checks=tuple(
            AdmissionCheck(
                name=item.get("name") or "",
                state=item.get("state") or "",
                message=item.get("message") or "",
                since=instant(item.get("lastTransitionTime")),
            )
            for item in status.get("admissionChecks") or ()
        ),
        evictions={item.get("reason") or "": int(item.get("count") or 0) for item in told},
        requeue_count=int(requeue.get("count") or 0),
        requeue_at=instant(requeue.get("requeueAt")),
    )


def local_queue(raw: Raw) -> Queue:
    """A LocalQueue of Kueue."""
    return _queue("LocalQueue", raw)


def cluster_queue(raw: Raw) -> Queue:
    """A ClusterQueue of Kueue."""
    return _queue("ClusterQueue", raw)


def _queue(kind: str, raw: Raw) -> Queue:
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    return Queue(
        kind=kind,
        name=raw["metadata"]["name"],
        cluster_queue=str(spec.get("clusterQueue") or ""),
        stop_policy=spec.get("stopPolicy") or "",
        pending=int(status.get("pendingWorkloads") or 0),
        conditions=conditions(status),
        quotas=tuple(_quotas(spec, status)),
    )


def _quotas(spec: Raw, status: Raw) -> Iterator[FlavorQuota]:
    told = status.get("flavorsReservation") or status.get("flavorsUsage") or ()
    reserved = {
        (flavor["name"], item["name"]): str(item.get("total") or 0)
        for flavor in told
        for item in flavor.get("resources") or ()
    }
    for number, group in enumerate(spec.get("resourceGroups") or ()):
        for flavor in group.get("flavors") or ():
            for item in flavor.get("resources") or ():
                yield FlavorQuota(
                    flavor=flavor["name"],
                    resource=item["name"],
                    nominal=str(item.get("nominalQuota") or 0),
                    reserved=reserved.get((flavor["name"], item["name"]), "0"),
                    group=number,
                )


def queue_place(raw: Raw) -> QueuePlace:
    """An item of Kueue's PendingWorkloadsSummary."""
    return QueuePlace(
        workload=raw["metadata"]["name"],
        in_cluster_queue=int(raw.get("positionInClusterQueue") or 0),
        in_local_queue=int(raw.get("positionInLocalQueue") or 0),
    )


def gang(raw: Raw) -> Gang:
    """A PodGroup of a gang scheduler."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    return Gang(
        name=raw["metadata"]["name"],
        phase=status.get("phase") or "",
        minimum=int(spec.get("minMember") or 0),
        queue=spec.get("queue") or "",
        conditions=conditions(status),
    )


def network_policy(raw: Raw) -> NetworkPolicy:
    """A NetworkPolicy. Without ``policyTypes`` it is about ingress; without ``ingress`` it then lets nobody in."""
    spec = raw.get("spec") or {}
    about_ingress = "Ingress" in (spec.get("policyTypes") or ("Ingress",))
    return NetworkPolicy(
        name=raw["metadata"]["name"],
        selector=dict(spec.get("podSelector") or {}),
        ingress=tuple(spec.get("ingress") or ()) if about_ingress else None,
    )


def rayjob(raw: Raw) -> RayJob:
    """A RayJob of KubeRay."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return RayJob(
        name=meta["name"],
        uid=meta.get("uid") or "",
        cluster=status.get("rayClusterName") or "",
        submission=status.get("jobId") or "",
        mode=spec.get("submissionMode") or "K8sJobMode",
        deployment=status.get("jobDeploymentStatus") or "",
        status=status.get("jobStatus") or "",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        created_at=instant(meta.get("creationTimestamp")),
        started_at=instant(status.get("startTime")),
        ended_at=instant(status.get("endTime")),
    )
