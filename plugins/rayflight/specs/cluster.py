"""The shape of a Ray cluster as people describe it. Data and checks only; manifests/ turns it into objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from rayflight.errors import InvalidSpec
from rayflight.labels import digest
from rayflight.specs.fit import cluster_warnings
from rayflight.specs.merge import merge
from rayflight.specs.pods import HeadSpec, KubeObject, PodParts, PodSpec, SecretKey, Toleration, WorkerGroup
from rayflight.specs.raw import READ_FIELDS, read_manifest
from rayflight.specs.storage import Storage
from rayflight.specs.strict import Strict
from rayflight.specs.units import Cpu, Memory, Name
from rayflight.specs.verification import VerificationPolicy

_TOKEN_SINCE = (2, 52)  # Ray's token authentication; KubeRay checks the same (validation.go)
_TOKEN_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_OWN_FIELDS = {"headGroupSpec": "head", "workerGroupSpecs": "groups", "rayVersion": "ray_version"}
_POD_FIELDS = frozenset(PodParts.model_fields) - {"labels", "annotations", "extra"}


class Autoscaler(Strict):
    """Ray's in-tree autoscaler: a sidecar of the head that changes replicas between min and max."""

    version: Literal["v1", "v2"] = "v2"
    idle_timeout_seconds: Annotated[int, Field(ge=1)] = 60
    upscaling_mode: Literal["Default", "Aggressive", "Conservative"] = "Default"
    cpu: Cpu = "500m"
    memory: Memory = "512Mi"


class GcsFaultTolerance(Strict):
    """Keep Ray's cluster state in a Redis, so that worker pods survive a head restart (the job's driver does not)."""

    redis_address: Annotated[str, Field(min_length=1)]
    redis_username: SecretKey | None = None
    redis_password: SecretKey | None = None
    external_storage_namespace: str | None = None


class ClusterSpec(PodParts):
    """One cluster: a head and worker groups, or a raw RayCluster manifest with overrides.

    ``env``, volumes, tolerations and the other fields of PodParts hold for all pods; ``labels`` and ``annotations`` go
    onto the RayCluster and all pods; ``extra`` is merged into ``RayCluster.spec``.
    """

    name: str | None = None
    simulated: bool = False  # the GPUs are none: shown wherever GPUs are shown
    ray_version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+")] | None = None
    image: str | None = None
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str | None = None
    termination_grace_seconds: Annotated[int, Field(ge=1)] = 5  # Kubernetes' 30 s keep GPUs from the next run
    head: HeadSpec = Field(default_factory=HeadSpec)
    groups: tuple[WorkerGroup, ...] = ()
    autoscaler: Autoscaler | None = None
    gcs_fault_tolerance: GcsFaultTolerance | None = None
    auth: Literal["disabled", "token"] = "disabled"
    queue: Name | None = None  # Kueue's LocalQueue
    storage: Storage | None = None
    verification: VerificationPolicy = Field(default_factory=VerificationPolicy)
    raw_manifest: KubeObject | None = None
    overrides: KubeObject = {}

    @model_validator(mode="before")
    @classmethod
    def _read_raw(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("raw_manifest") is None:
            return data
        doubled = sorted((READ_FIELDS | _POD_FIELDS) & set(data))
        if doubled:
            raise ValueError(
                f"{', '.join(doubled)} cannot stand beside raw_manifest: write it under overrides, as in a RayCluster"
            )
        if not isinstance(data["raw_manifest"], Mapping) or not isinstance(data.get("overrides", {}), Mapping):
            raise ValueError("raw_manifest and overrides must be mappings in the form of a RayCluster")
        return {**data, **read_manifest(merge(data["raw_manifest"], data.get("overrides", {})))}

    @field_validator("extra")
    @classmethod
    def _no_second_way(cls, extra: KubeObject) -> KubeObject:
        for field in sorted(set(extra) & set(_OWN_FIELDS)):
            raise ValueError(f"{field} has a field of its own, {_OWN_FIELDS[field]!r}: use that, its extra included")
        return extra

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.raw_manifest is None and self.overrides:
            raise ValueError("overrides change a raw_manifest, and there is none")
        if not self.groups:
            raise ValueError("groups: at least one worker group is needed")
        names = [group.name for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"group name {name!r} stands twice; KubeRay would let both fight for the same pods")
        if self.raw_manifest is None:
            self._require_images()
            self._require_volumes()
        self._check_auth()
        self._check_idle_timeouts()
        return self

    def _require_images(self) -> None:
        bare = [pod for pod, spec in self._pods() if spec.image is None]
        if bare and self.image is None:
            raise ValueError(f"image: required (for the cluster, or for {' and '.join(bare)})")

    def _require_volumes(self) -> None:
        shared = {volume["name"] for volume in self.volumes}
        for pod, spec in self._pods():
            known = shared | {volume["name"] for volume in spec.volumes}
            for mount in (*self.volume_mounts, *spec.volume_mounts):
                if mount.get("name") not in known:
                    raise ValueError(f"{pod} mounts volume {mount.get('name')!r}, which volumes does not have")

    def _check_auth(self) -> None:
        if self.auth != "token":
            return
        if self.ray_version is None:
            raise ValueError("auth: token needs ray_version (2.52.0 or later)")
        if tuple(int(part) for part in self.ray_version.split(".")[:2]) < _TOKEN_SINCE:
            raise ValueError(f"auth: token needs Ray 2.52.0 or later, ray_version is {self.ray_version}")
        for pod, spec in self._pods():
            taken = sorted(
                set(_TOKEN_VARIABLES) & {*self.env, *self.env_from_secrets, *spec.env, *spec.env_from_secrets}
            )
            if taken:
                raise ValueError(f"{pod} sets {', '.join(taken)}, which auth: token sets itself")

    def _check_idle_timeouts(self) -> None:
        by_group = [group.name for group in self.groups if group.idle_timeout_seconds]
        if by_group and (self.autoscaler is None or self.autoscaler.version != "v2"):
            raise ValueError(f"idle_timeout_seconds of group {by_group[0]!r} needs an autoscaler of version v2")

    def _pods(self) -> list[tuple[str, HeadSpec | WorkerGroup]]:
        return [("head", self.head), *((f"group {group.name!r}", group) for group in self.groups)]

    @property
    def worker_pods(self) -> int:
        """Worker pods wanted at the start."""
        return sum(group.pods for group in self.groups)

    @property
    def gpus(self) -> int:
        """GPUs wanted at the start."""
        return sum(group.pods * group.gpus for group in self.groups)

    @property
    def hash(self) -> str:
        """Digest of what was asked for; equal for equal specs, also after an update that only adds fields."""
        return digest(json.dumps(self.to_dict(), sort_keys=True))

    def image_of(self, pod: PodSpec) -> str | None:
        """The image that this pod runs."""
        return pod.image or self.image

    def node_selector_of(self, pod: PodSpec) -> dict[str, str]:
        """Labels that the Kubernetes node of this pod must carry."""
        return {**self.node_selector, **pod.node_selector}

    def tolerations_of(self, pod: PodSpec) -> tuple[Toleration, ...]:
        """Taints that this pod tolerates: those for all pods, and its own or the default of GPU groups."""
        default = pod.default_tolerations if isinstance(pod, WorkerGroup) else ()
        return (*(self.tolerations or ()), *(default if pod.tolerations is None else pod.tolerations))

    def group(self, name: str) -> WorkerGroup:
        """The group of this name."""
        for group in self.groups:
            if group.name == name:
                return group
        raise InvalidSpec(
            "Unknown group",
            which=repr(name),
            why=f"the shape has {', '.join(group.name for group in self.groups)}",
            next_step="name one of these",
        )

    def warnings(self) -> list[str]:
        """What is likely to go wrong with this spec, in words; nothing here is refused."""
        return list(cluster_warnings(self))

    def manifest(self) -> KubeObject:
        """The raw manifest with its overrides. Only for a spec that has one."""
        if self.raw_manifest is None:
            raise InvalidSpec("No raw manifest", which=self.name or "", next_step="build one with rayflight.manifests")
        return merge(self.raw_manifest, self.overrides)

    def with_storage(self, storage: Storage | None) -> ClusterSpec:
        """Add a job's storage, which the pods must mount. Refuses two different ones."""
        if storage is None or storage == self.storage:
            return self
        if self.storage is not None:
            raise InvalidSpec(
                "Two storages",
                which=self.name or "",
                why="shape and job name different ones",
                next_step="keep one of them",
            )
        return self.replace(storage=storage)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data without defaults; what is read from a raw manifest is left out."""
        return {key: value for key, value in super().to_dict().items() if key not in self._read()}

    def _given(self) -> dict[str, Any]:
        return {key: value for key, value in super()._given().items() if key not in self._read()}

    def _read(self) -> frozenset[str]:
        return READ_FIELDS if self.raw_manifest is not None else frozenset()
