"""The pods of a cluster as people describe them: the head and the worker groups. Data only."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from rayflight.specs.strict import Strict
from rayflight.specs.units import Cpu, Memory, Name, as_text

KubeObject = dict[str, Any]
"""An object in Kubernetes' own form (camelCase); the API server checks it."""

Text = Annotated[str, BeforeValidator(as_text)]
"""Text; a bare YAML number is taken as its digits."""

EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]

RESERVED_GROUP = "headgroup"  # KubeRay gives this group name to the head pod
_OWN_FIELDS = {
    "groupName": "name",
    "replicas": "replicas",
    "minReplicas": "min_replicas",
    "maxReplicas": "max_replicas",
    "numOfHosts": "hosts_per_replica",
    "rayStartParams": "ray_start_params",
}


class SecretKey(Strict):
    """One key of a Secret in the cluster's namespace."""

    secret: str
    key: str
    optional: bool = False


class EnvSource(Strict):
    """A whole Secret or ConfigMap as environment variables."""

    secret: str | None = None
    config_map: str | None = None
    optional: bool = False

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.secret is None) == (self.config_map is None):
            raise ValueError("name either a secret or a config_map")
        return self


class Toleration(Strict):
    """A Kubernetes toleration; both spellings of its field with two words are taken."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = Field(default=None, alias="tolerationSeconds")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("a toleration with operator Exists has no value")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("a toleration with operator Equal needs a key")
        return self


class PodParts(Strict):
    """What can be said for all pods of a cluster, and added to for the head or one group."""

    env: dict[EnvName, Text] = {}
    env_from_secrets: dict[EnvName, SecretKey] = {}
    env_from: tuple[EnvSource, ...] = ()
    volumes: tuple[KubeObject, ...] = ()
    volume_mounts: tuple[KubeObject, ...] = ()
    node_selector: dict[str, Text] = {}
    tolerations: tuple[Toleration, ...] | None = None
    affinity: KubeObject | None = None
    priority_class: str | None = None
    labels: dict[str, Text] = {}
    annotations: dict[str, Text] = {}
    extra: KubeObject = {}

    @field_validator("volumes")
    @classmethod
    def _named(cls, volumes: tuple[KubeObject, ...]) -> tuple[KubeObject, ...]:
        names = [volume.get("name") for volume in volumes]
        if None in names or len(set(names)) < len(names):
            raise ValueError(f"every volume needs a name of its own, got {names}")
        return volumes

    @field_validator("volume_mounts")
    @classmethod
    def _mounted_once(cls, mounts: tuple[KubeObject, ...]) -> tuple[KubeObject, ...]:
        paths = [mount.get("mountPath") for mount in mounts]
        if None in paths or len(set(paths)) < len(paths):
            raise ValueError(f"every mount needs a name and a mountPath of its own, got the paths {paths}")
        return mounts

    @model_validator(mode="after")
    def _one_source_per_variable(self) -> Self:
        both = sorted(set(self.env) & set(self.env_from_secrets))
        if both:
            raise ValueError(f"{', '.join(both)} stands in env and in env_from_secrets; keep one")
        return self


class PodSpec(PodParts):
    """One kind of pod: its size, and what Ray is started with."""

    image: str | None = None
    cpu: Cpu | None = "1"
    cpu_request: Cpu | None = None
    memory: Memory | None = "2Gi"
    memory_request: Memory | None = None
    shm_size: Memory | None = None
    ray_start_params: dict[str, Text] = {}

    @field_validator("ray_start_params")
    @classmethod
    def _sizes_in_bytes(cls, params: dict[str, str]) -> dict[str, str]:
        for name in ("memory", "object-store-memory"):
            if not params.get(name, "0").isdecimal():
                raise ValueError(
                    f"{name} {params[name]!r} must be a whole number of bytes: that is what `ray start` takes"
                )
        return params

    @field_validator("extra")
    @classmethod
    def _no_second_way(cls, extra: KubeObject) -> KubeObject:
        for field in sorted(set(extra) & set(_OWN_FIELDS)):
            raise ValueError(f"{field} has a field of its own, {_OWN_FIELDS[field]!r}: use that")
        return extra


class HeadSpec(PodSpec):
    """The head pod. It offers Ray no GPU, and no CPU unless ``num_cpus`` says so: training stays on worker pods."""

    num_cpus: Annotated[int, Field(ge=0)] = 0

    @field_validator("ray_start_params")
    @classmethod
    def _no_resources(cls, params: dict[str, str]) -> dict[str, str]:
        if "num-cpus" in params:
            raise ValueError("num-cpus of the head is set by the field num_cpus: use that")
        if params.get("num-gpus", "0") != "0":
            raise ValueError("the head offers no GPU: put GPUs into a worker group")
        return params


class WorkerGroup(PodSpec):
    """A group of equal worker pods. ``gpus``, ``cpu`` and ``memory`` are those of each pod."""

    name: Name
    replicas: Annotated[int, Field(ge=0)] = 1
    min_replicas: Annotated[int, Field(ge=0)] | None = None
    max_replicas: Annotated[int, Field(ge=0)] | None = None
    hosts_per_replica: Annotated[int, Field(ge=1)] = 1
    gpus: Annotated[int, Field(ge=0)] = 0
    gpu_resource: str = "nvidia.com/gpu"
    spread: Literal["preferred", "required", "none"] = "preferred"
    topology_spread: tuple[KubeObject, ...] | None = None
    idle_timeout_seconds: Annotated[int, Field(ge=1)] | None = None

    @field_validator("name")
    @classmethod
    def _not_the_heads(cls, name: str) -> str:
        if name == RESERVED_GROUP:
            raise ValueError(f"{name!r} is KubeRay's name for the head; choose another")
        return name

    @field_validator("gpu_resource")
    @classmethod
    def _extended_resource(cls, resource: str) -> str:
        if not re.fullmatch(r"[a-z0-9.-]+/[A-Za-z0-9._-]+", resource):
            raise ValueError(f"{resource!r} is no extended resource: write for example nvidia.com/gpu")
        return resource

    @model_validator(mode="after")
    def _numbers_fit(self) -> Self:
        if not self.least <= self.replicas <= self.most:
            if self.least > self.most:
                raise ValueError(f"group {self.name!r}: min_replicas {self.least} is above max_replicas {self.most}")
            raise ValueError(
                f"group {self.name!r}: replicas {self.replicas} is not between min_replicas {self.least} "
                f"and max_replicas {self.most}"
            )
        claimed = self.ray_start_params.get("num-gpus")
        if claimed is not None and claimed != str(self.gpus):
            raise ValueError(
                f"group {self.name!r}: num-gpus {claimed} would only claim GPUs; set gpus (now {self.gpus})"
            )
        return self

    @property
    def least(self) -> int:
        """Least replicas; the group has a fixed size unless told otherwise."""
        return self.replicas if self.min_replicas is None else self.min_replicas

    @property
    def most(self) -> int:
        """Most replicas."""
        return self.replicas if self.max_replicas is None else self.max_replicas

    @property
    def pods(self) -> int:
        """Worker pods wanted at the start."""
        return self.replicas * self.hosts_per_replica

    @property
    def default_tolerations(self) -> tuple[Toleration, ...]:
        """The usual taint of GPU pools, for a group with GPUs that names no tolerations of its own."""
        return (Toleration(key=_pool_taint(self.gpu_resource), operator="Exists"),) if self.gpus else ()


def _pool_taint(resource: str) -> str:
    """The taint key of a GPU pool: MIG slices and the like sit on nodes tainted for the vendor's ``gpu``."""
    vendor = resource.partition("/")[0]
    return f"{vendor}/gpu" if vendor in ("nvidia.com", "amd.com") else resource
