"""One pod template of a RayCluster from its spec. Pure.

KubeRay takes the first container for the Ray container and derives ``ray start`` flags from its limits (facts of its
utils/resources.go); the traps that follow from this are handled here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rayflight.specs import ClusterSpec, EnvSource, HeadSpec, SecretKey, Toleration, WorkerGroup
from rayflight.specs.pods import KubeObject, PodSpec
from rayflight.specs.raw import ray_counts

HEAD_CONTAINER = "ray-head"
WORKER_CONTAINER = "ray-worker"
SHM_VOLUME = "rayflight-shm"
GROUP_LABEL = "ray.io/group"
CLUSTER_LABEL = "ray.io/cluster"
# Ray 2.60 serves stacks of a training that hangs only so. Whoever reaches the dashboard may submit jobs: this adds no
# power to that.
_SERVES_STACKS = MappingProxyType({"RAY_DASHBOARD_ENABLE_PROFILING": "1"})


def head_template(spec: ClusterSpec) -> KubeObject:
    """The pod template of the head."""
    return _template(spec, spec.head, HEAD_CONTAINER, gpus={}, env=_SERVES_STACKS)


def worker_template(spec: ClusterSpec, group: WorkerGroup, cluster: str) -> KubeObject:
    """The pod template of one group in the cluster of this name."""
    gpus = {group.gpu_resource: str(group.gpus)} if group.gpus else {}
    template = _template(spec, group, WORKER_CONTAINER, gpus=gpus)
    spread = _spread(group, cluster)
    if spread:
        template["spec"]["topologySpreadConstraints"] = spread
    return template


def ray_start_params(pod: HeadSpec | WorkerGroup) -> dict[str, str]:
    """Flags of ``ray start``: never leave num-gpus to Ray's own search.

    Without a GPU limit KubeRay passes no --num-gpus, and ``ray start`` then claims every GPU that NVML shows it, also
    those of other pods (kuberay#2098). A resource whose name KubeRay does not know for a GPU needs the flag as well.
    """
    if isinstance(pod, HeadSpec):
        return {"num-gpus": "0", "num-cpus": str(pod.num_cpus), **pod.ray_start_params}
    derived = pod.gpus and ray_counts(pod.gpu_resource)
    return {**({} if derived else {"num-gpus": str(pod.gpus)}), **pod.ray_start_params}


def _template(
    spec: ClusterSpec,
    pod: HeadSpec | WorkerGroup,
    name: str,
    gpus: dict[str, str],
    env: Mapping[str, str] = MappingProxyType({}),
) -> KubeObject:
    mounts = [*spec.volume_mounts, *pod.volume_mounts]
    volumes = [*spec.volumes, *pod.volumes]
    if pod.shm_size:
        volumes.append({"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": pod.shm_size}})
        mounts.append({"name": SHM_VOLUME, "mountPath": "/dev/shm"})  # noqa: S108 - KubeRay then mounts none of its own
    container = _present(
        name=name,
        image=spec.image_of(pod),
        imagePullPolicy=spec.image_pull_policy,
        resources=_resources(pod, gpus),
        env=_env(spec, pod, env),
        envFrom=[_env_source(source) for source in (*spec.env_from, *pod.env_from)],
        volumeMounts=mounts,
    )
    body = _present(
        containers=[container],
        nodeSelector=spec.node_selector_of(pod),
        tolerations=[_toleration(each) for each in spec.tolerations_of(pod)],
        affinity=pod.affinity or spec.affinity,
        priorityClassName=pod.priority_class or spec.priority_class,
        imagePullSecrets=[{"name": secret} for secret in spec.image_pull_secrets],
        serviceAccountName=spec.service_account,
        volumes=volumes,
        terminationGracePeriodSeconds=spec.termination_grace_seconds,
    )
    metadata = _present(labels=dict(pod.labels), annotations=dict(pod.annotations))
    return _present(metadata=metadata, spec=body)


def _resources(pod: PodSpec, gpus: dict[str, str]) -> KubeObject:
    limits = _present(cpu=pod.cpu, memory=pod.memory)
    requests = _present(cpu=pod.cpu_request or pod.cpu, memory=pod.memory_request or pod.memory)
    return _present(limits={**limits, **gpus}, requests={**requests, **gpus})


def _env(spec: ClusterSpec, pod: PodSpec, ours: Mapping[str, str]) -> list[KubeObject]:
    """The pod's own variables win over those of all pods, whichever way either is given, and both over ours."""
    plain: dict[str, str | SecretKey] = {**ours, **spec.env, **spec.env_from_secrets, **pod.env, **pod.env_from_secrets}
    return [{"name": name, **_env_value(value)} for name, value in plain.items()]


def _env_value(value: str | SecretKey) -> KubeObject:
    return {"value": value} if isinstance(value, str) else {"valueFrom": {"secretKeyRef": secret_key(value)}}


def secret_key(value: SecretKey) -> KubeObject:
    """A reference to one key of a Secret."""
    return _optional({"name": value.secret, "key": value.key}, optional=value.optional)


def _env_source(source: EnvSource) -> KubeObject:
    kind, name = ("secretRef", source.secret) if source.secret else ("configMapRef", source.config_map)
    return {kind: _optional({"name": name}, optional=source.optional)}


def _optional(reference: KubeObject, *, optional: bool) -> KubeObject:
    return {**reference, "optional": True} if optional else reference


def _toleration(each: Toleration) -> KubeObject:
    return each.model_dump(by_alias=True, exclude_none=True)


def _spread(group: WorkerGroup, cluster: str) -> list[KubeObject]:
    """Pods of a group with GPUs go to different Kubernetes nodes where there is room: one lost node costs one pod."""
    if group.topology_spread is not None:
        return list(group.topology_spread)
    if not group.gpus or group.spread == "none":
        return []
    required = group.spread == "required"
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
            "nodeTaintsPolicy": "Honor",  # a node that the pods cannot go to is no place to spread over
            "labelSelector": {"matchLabels": {CLUSTER_LABEL: cluster, GROUP_LABEL: group.name}},
        }
    ]


def _present(**fields: Any) -> KubeObject:
    """Leave out what is empty: an object holds what was asked for, so that dropped fields can be told."""
    return {key: value for key, value in fields.items() if value not in (None, {}, [], "")}


def named(items: Iterable[KubeObject]) -> set[str]:
    """Names in use among these items."""
    return {item["name"] for item in items if "name" in item}
