"""Raw Kubernetes JSON, as the API serves it (camelCase), to facts. Pure: no I/O; unknown fields are left out.

Each function takes one object (not a List) and raises KeyError when it has no ``metadata.name``: such a thing is not a
Kubernetes object, and to guess would hide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rayflight.snapshot.conditions import Condition, Strings
from rayflight.snapshot.model import (
    Claim,
    Cluster,
    Container,
    Event,
    Group,
    KubeNode,
    Pod,
    Quota,
    Service,
    Taint,
    Termination,
    Toleration,
)
from rayflight.snapshot.times import earlier, instant

Raw = Mapping[str, Any]

ROLE_LABEL = "ray.io/node-type"
GROUP_LABEL = "ray.io/group"
CLUSTER_LABEL = "ray.io/cluster"
NO_MAXIMUM = 2147483647  # KubeRay's default for maxReplicas
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # a copy of the whole object, secrets included
_TOLD = ("gpu-fraction", "gpu-memory", "sidecar.istio.io/inject", "gke-gcsfuse/volumes")  # that a rule reads


def cluster(raw: Raw) -> Cluster:
    """A stored RayCluster."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    head_group = spec.get("headGroupSpec") or {}
    head = _ray_container(head_group)
    return Cluster(
        name=meta["name"],
        uid=meta.get("uid") or "",
        namespace=meta.get("namespace") or "",
        created_at=instant(meta.get("creationTimestamp")),
        deleting_since=deleting_since(meta),
        generation=int(meta.get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        suspended=bool(spec.get("suspend")),
        state=status.get("state") or "",
        # An operator that only looked has written conditions; an empty object is what nobody touched.
        has_status=bool(status),
        autoscaling=bool(spec.get("enableInTreeAutoscaling")),
        ray_version=spec.get("rayVersion") or "",
        head_service=(status.get("head") or {}).get("serviceName") or "",
        conditions=conditions(status),
        groups=tuple(_group(item) for item in spec.get("workerGroupSpecs") or ()),
        finalizers=tuple(meta.get("finalizers") or ()),
        head_limits=_resources(head, "limits"),
        head_requests=_resources(head, "requests"),
        head_start_params=_start_params(head_group),
        auth_mode=(spec.get("authOptions") or {}).get("mode") or _environment(head).get("RAY_AUTH_MODE", ""),
        labels=dict(meta.get("labels") or {}),
        annotations={key: text for key, text in (meta.get("annotations") or {}).items() if key != LAST_APPLIED},
        status_reason=status.get("reason") or "",
        status_desired=status.get("desiredWorkerReplicas"),
        fault_tolerant=_fault_tolerant(meta, spec),
    )


def _fault_tolerant(meta: Raw, spec: Raw) -> bool:
    return (
        bool(spec.get("gcsFaultToleranceOptions")) or (meta.get("annotations") or {}).get("ray.io/ft-enabled") == "true"
    )


def deleting_since(meta: Raw) -> str | None:
    """The API shows when the grace ends; what we want is when the deletion was asked for."""
    return earlier(instant(meta.get("deletionTimestamp")), float(meta.get("deletionGracePeriodSeconds") or 0))


def _group(raw: Raw) -> Group:
    minimum = int(raw.get("minReplicas") or 0)
    maximum = NO_MAXIMUM if raw.get("maxReplicas") is None else int(raw["maxReplicas"])
    replicas = minimum if raw.get("replicas") is None else int(raw["replicas"])
    # Upper bound last: with minReplicas above maxReplicas KubeRay makes maxReplicas pods, and says nothing.
    desired = 0 if raw.get("suspend") else min(max(replicas, minimum), maximum) * int(raw.get("numOfHosts") or 1)
    container = _ray_container(raw)
    return Group(
        name=raw.get("groupName") or "",
        desired=desired,
        minimum=minimum,
        maximum=maximum,
        limits=_resources(container, "limits"),
        requests=_resources(container, "requests"),
        selector=dict(_template(raw).get("nodeSelector") or {}),
        start_params=_start_params(raw),
        replicas=replicas,
        hosts=raw.get("numOfHosts"),
    )


def _start_params(group: Raw) -> Strings:
    return {name: str(value) for name, value in (group.get("rayStartParams") or {}).items()}


def _template(group: Raw) -> Raw:
    found: Raw = (group.get("template") or {}).get("spec") or {}
    return found


def _ray_container(group: Raw) -> Raw:
    """``containers[0]`` is always the Ray container for KubeRay."""
    containers: Sequence[Raw] = _template(group).get("containers") or ({},)
    return containers[0]


def _environment(container: Raw) -> dict[str, str]:
    return {item["name"]: str(item.get("value") or "") for item in container.get("env") or ()}


def pod(raw: Raw) -> Pod:
    """A pod of the cluster, or (without KubeRay's labels) a foreign one."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = dict(meta.get("labels") or {})
    owner: Raw = next((item for item in meta.get("ownerReferences") or () if item.get("controller")), {})
    return Pod(
        name=meta["name"],
        uid=meta.get("uid") or "",
        namespace=meta.get("namespace") or "",
        role=labels.get(ROLE_LABEL, ""),
        group=labels.get(GROUP_LABEL, ""),
        phase=status.get("phase") or "",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        created_at=instant(meta.get("creationTimestamp")),
        started_at=instant(status.get("startTime")),
        deleting_since=deleting_since(meta),
        conditions=conditions(status),
        containers=_containers(spec, status),
        node_selector=dict(spec.get("nodeSelector") or {}),
        affinity=dict(spec.get("affinity") or {}),
        tolerations=tuple(_toleration(item) for item in spec.get("tolerations") or ()),
        claims=_claims(spec.get("volumes") or ()),
        scheduling_gates=tuple(item["name"] for item in spec.get("schedulingGates") or ()),
        scheduler=spec.get("schedulerName") or "default-scheduler",
        priority=int(spec.get("priority") or 0),
        labels=labels,
        owner_uid=owner.get("uid") or "",
        restart_policy=spec.get("restartPolicy") or "Always",
        spread=tuple(spec.get("topologySpreadConstraints") or ()),
        annotations={key: text for key, text in (meta.get("annotations") or {}).items() if key in _TOLD},
        finalizers=tuple(meta.get("finalizers") or ()),
    )


def _claims(volumes: Iterable[Raw]) -> tuple[str, ...]:
    named = ((item.get("persistentVolumeClaim") or {}).get("claimName") for item in volumes)
    return tuple(name for name in named if name)


def _containers(spec: Raw, status: Raw) -> tuple[Container, ...]:
    init = _statuses(status, "initContainerStatuses")
    main = _statuses(status, "containerStatuses")
    return (
        *(_container(item, init.get(item["name"], {}), init=True) for item in spec.get("initContainers") or ()),
        *(_container(item, main.get(item["name"], {}), init=False) for item in spec.get("containers") or ()),
    )


def _statuses(status: Raw, key: str) -> dict[str, Raw]:
    return {item["name"]: item for item in status.get(key) or ()}


def _container(spec: Raw, status: Raw, *, init: bool) -> Container:
    states: Raw = status.get("state") or {}
    state = next((name for name in ("waiting", "running", "terminated") if name in states), "unknown")
    detail: Raw = states.get(state) or {}
    return Container(
        name=spec["name"],
        image=spec.get("image") or "",
        image_id=status.get("imageID") or "",
        init=init,
        sidecar=init and spec.get("restartPolicy") == "Always",
        state=state,
        reason=detail.get("reason") or "",
        message=detail.get("message") or "",
        ready=bool(status.get("ready")),
        restarts=int(status.get("restartCount") or 0),
        started_at=instant(detail.get("startedAt")),
        terminated=_termination(states.get("terminated")),
        last=_termination((status.get("lastState") or {}).get("terminated")),
        requests=_resources(spec, "requests"),
        limits=_resources(spec, "limits"),
        unhealthy_devices=_devices(status, "Unhealthy"),
        healthy_devices=_devices(status, "Healthy"),
    )


def _termination(raw: Raw | None) -> Termination | None:
    if not raw:
        return None
    return Termination(
        reason=raw.get("reason") or "",
        exit_code=int(raw.get("exitCode") or 0),
        message=raw.get("message") or "",
        finished_at=instant(raw.get("finishedAt")),
    )


def _devices(status: Raw, health: str) -> tuple[str, ...]:
    """Devices of that health as the kubelet says (KEP-4680: ``allocatedResourcesStatus``, where the feature is on)."""
    return tuple(
        device.get("resourceID") or ""
        for resource in status.get("allocatedResourcesStatus") or ()
        for device in resource.get("resources") or ()
        if device.get("health") == health
    )


def _toleration(raw: Raw) -> Toleration:
    return Toleration(
        key=raw.get("key") or "",
        operator=raw.get("operator") or "Equal",
        value=raw.get("value") or "",
        effect=raw.get("effect") or "",
    )


def _resources(container: Raw, kind: str) -> Strings:
    return {name: str(value) for name, value in ((container.get("resources") or {}).get(kind) or {}).items()}


def conditions(status: Raw) -> tuple[Condition, ...]:
    """The conditions of any object's status."""
    return tuple(
        Condition(
            type=item["type"],
            status=item.get("status") or "",
            reason=item.get("reason") or "",
            message=item.get("message") or "",
            since=instant(item.get("lastTransitionTime")),
        )
        for item in status.get("conditions") or ()
    )


def event(raw: Raw) -> Event:
    """An event of either API (core/v1 or events.k8s.io/v1), each of which may have been written through the other."""
    about = raw.get("involvedObject") or raw.get("regarding") or {}
    series = raw.get("series") or {}
    source = raw.get("source") or raw.get("deprecatedSource") or {}
    first = raw.get("firstTimestamp") or raw.get("deprecatedFirstTimestamp") or raw.get("eventTime")
    last = series.get("lastObservedTime") or raw.get("lastTimestamp") or raw.get("deprecatedLastTimestamp")
    created = raw["metadata"].get("creationTimestamp")
    return Event(
        kind=about.get("kind") or "",
        name=about.get("name") or "",
        uid=about.get("uid") or "",
        reason=raw.get("reason") or "",
        message=raw.get("message") or raw.get("note") or "",
        type=raw.get("type") or "Normal",
        count=int(series.get("count") or raw.get("count") or raw.get("deprecatedCount") or 1),
        first_at=instant(first or created),
        last_at=instant(last or raw.get("eventTime") or created),
        source=raw.get("reportingComponent") or raw.get("reportingController") or source.get("component") or "",
    )


def events(*lists: Iterable[Raw]) -> tuple[Event, ...]:
    """Events of both APIs joined: each object once (by UID), in the order in which they were last seen."""
    unique = {item["metadata"].get("uid") or id(item): item for items in lists for item in items}
    return tuple(sorted((event(item) for item in unique.values()), key=lambda item: item.last_at or ""))


def node(raw: Raw) -> KubeNode:
    """A Kubernetes node."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return KubeNode(
        name=meta["name"],
        labels=dict(meta.get("labels") or {}),
        taints=tuple(
            Taint(key=item["key"], value=item.get("value") or "", effect=item.get("effect") or "")
            for item in spec.get("taints") or ()
        ),
        capacity={name: str(value) for name, value in (status.get("capacity") or {}).items()},
        allocatable={name: str(value) for name, value in (status.get("allocatable") or {}).items()},
        conditions=conditions(status),
        unschedulable=bool(spec.get("unschedulable")),
    )


def quota(raw: Raw) -> Quota:
    """A ResourceQuota. A quota that nobody has counted yet shows its hard limits from the spec."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    return Quota(
        name=raw["metadata"]["name"],
        hard={name: str(value) for name, value in (status.get("hard") or spec.get("hard") or {}).items()},
        used={name: str(value) for name, value in (status.get("used") or {}).items()},
    )


def claim(raw: Raw) -> Claim:
    """A PersistentVolumeClaim."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    return Claim(
        name=raw["metadata"]["name"],
        phase=status.get("phase") or "",
        storage_class=spec.get("storageClassName") or "",
        access_modes=tuple(spec.get("accessModes") or ()),
        volume=spec.get("volumeName") or "",
    )


def service(raw: Raw) -> Service:
    """A service with its named ports."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    return Service(
        name=raw["metadata"]["name"],
        ports={item.get("name") or "": int(item["port"]) for item in spec.get("ports") or ()},
        kind=spec.get("type") or "ClusterIP",
        has_address=bool((status.get("loadBalancer") or {}).get("ingress")),
        created_at=instant(raw["metadata"].get("creationTimestamp")),
    )
