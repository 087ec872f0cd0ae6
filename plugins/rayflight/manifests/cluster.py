"""The RayCluster object from a spec: from a shape, or from a raw manifest. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from rayflight import labels
from rayflight.errors import InvalidSpec
from rayflight.labels import MAX_CLUSTER_NAME, Owner
from rayflight.manifests.auth import token_variables
from rayflight.manifests.avoid import avoid_nodes
from rayflight.manifests.pods import head_template, named, ray_start_params, secret_key, worker_template
from rayflight.specs import ClusterSpec, ObjectStorage, PvcStorage, SecretKey, WorkerGroup
from rayflight.specs.merge import merge
from rayflight.specs.pods import KubeObject

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
STORAGE_VOLUME = "rayflight-storage"
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SERVER_FIELDS = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "finalizers",
)


def build(
    spec: ClusterSpec, owner: Owner, namespace: str, *, token_secret: str | None = None, avoid: Collection[str] = ()
) -> KubeObject:
    """Return the RayCluster that this owner's attempt creates: deterministic name, owner labels, spec hash.

    ``token_secret`` names the Secret for token mode by environment, for a KubeRay that does not know authOptions.
    ``avoid`` are Kubernetes nodes that no worker pod may go to; they are no part of the spec, nor of its hash.
    """
    avoided = {labels.AVOIDED: " ".join(sorted(avoid))} if avoid else {}
    manifest = build_cluster(
        spec,
        name=owner.cluster_name,
        namespace=namespace,
        own_labels={**owner.labels(), labels.SPEC_HASH: spec.hash},
        own_annotations={labels.OWNER: json.dumps(owner.to_dict(), sort_keys=True), **avoided},
        token_secret=token_secret,
    )
    avoid_nodes(manifest, avoid)
    return manifest


def build_cluster(
    spec: ClusterSpec,
    *,
    name: str,
    namespace: str,
    own_labels: Mapping[str, str],
    own_annotations: Mapping[str, str],
    token_secret: str | None = None,
) -> KubeObject:
    """Return the RayCluster of this name; ``own_*`` say whose it is and win over what the spec says."""
    check_name(name)
    manifest = _from_shape(spec, name) if spec.raw_manifest is None else _from_raw(spec)
    marks = {labels.SIMULATED: "true"} if spec.simulated else {}
    for pod in _templates(manifest):
        _mark(pod, {**spec.labels, **own_labels}, {**spec.annotations, **marks})
    queue = {QUEUE_LABEL: spec.queue} if spec.queue else {}
    _mark(manifest, {**spec.labels, **queue, **own_labels}, {**spec.annotations, **marks, **own_annotations})
    manifest["metadata"] |= {"name": name, "namespace": namespace}
    _add_storage(manifest, spec)
    _add_token(manifest, spec, token_secret)
    return manifest


def check_name(name: str) -> None:
    """Refuse a name that KubeRay would answer with an event only, as if the operator were dead."""
    if len(name) > MAX_CLUSTER_NAME:
        why = f"it has {len(name)} characters, KubeRay takes at most {MAX_CLUSTER_NAME}"
        raise InvalidSpec(
            "Refused cluster name", which=repr(name), why=why, next_step="shorten it; nothing was created"
        )
    if not _DNS_1035.fullmatch(name):
        why = "it must start with a letter and hold only a-z, 0-9 and '-', not at the end"
        raise InvalidSpec("Refused cluster name", which=repr(name), why=why, next_step="rename it; nothing was created")


def _from_shape(spec: ClusterSpec, name: str) -> KubeObject:
    body: KubeObject = {
        **({"rayVersion": spec.ray_version} if spec.ray_version else {}),
        **_autoscaling(spec),
        **_gcs_fault_tolerance(spec),
        "headGroupSpec": merge(
            {"rayStartParams": ray_start_params(spec.head), "template": head_template(spec)}, spec.head.extra
        ),
        "workerGroupSpecs": [_group(spec, group, name) for group in spec.groups],
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {}, "spec": merge(body, spec.extra)}


def _group(spec: ClusterSpec, group: WorkerGroup, cluster: str) -> KubeObject:
    numbers = {"replicas": group.replicas, "minReplicas": group.least, "maxReplicas": group.most}
    body: KubeObject = {
        "groupName": group.name,
        **numbers,
        **({"numOfHosts": group.hosts_per_replica} if group.hosts_per_replica > 1 else {}),
        **({"idleTimeoutSeconds": group.idle_timeout_seconds} if group.idle_timeout_seconds else {}),
        "rayStartParams": ray_start_params(group),
        "template": worker_template(spec, group, cluster),
    }
    return merge(body, group.extra)


def _autoscaling(spec: ClusterSpec) -> KubeObject:
    if spec.autoscaler is None:
        return {}
    size = {"cpu": spec.autoscaler.cpu, "memory": spec.autoscaler.memory}
    options = {
        "version": spec.autoscaler.version,
        "idleTimeoutSeconds": spec.autoscaler.idle_timeout_seconds,
        "upscalingMode": spec.autoscaler.upscaling_mode,
        "imagePullPolicy": spec.image_pull_policy,
        "resources": {"limits": size, "requests": dict(size)},
    }
    return {"enableInTreeAutoscaling": True, "autoscalerOptions": options}


def _gcs_fault_tolerance(spec: ClusterSpec) -> KubeObject:
    wanted = spec.gcs_fault_tolerance
    if wanted is None:
        return {}
    options: KubeObject = {"redisAddress": wanted.redis_address}
    if wanted.redis_username:
        options["redisUsername"] = _value_from(wanted.redis_username)
    if wanted.redis_password:
        options["redisPassword"] = _value_from(wanted.redis_password)
    if wanted.external_storage_namespace:
        options["externalStorageNamespace"] = wanted.external_storage_namespace
    return {"gcsFaultToleranceOptions": options}


def _value_from(key: SecretKey) -> KubeObject:
    return {"valueFrom": {"secretKeyRef": secret_key(key)}}


def _from_raw(spec: ClusterSpec) -> KubeObject:
    """The user's own manifest: nothing of it is lost but what only a server may write."""
    manifest = merge(spec.manifest(), {"spec": spec.extra})
    manifest.pop("status", None)
    for field in _SERVER_FIELDS:
        manifest.setdefault("metadata", {}).pop(field, None)
    head = manifest["spec"]["headGroupSpec"]
    head["rayStartParams"] = {"num-gpus": "0", **(head.get("rayStartParams") or {})}
    asked = spec.model_fields_set
    for pod in _templates(manifest):
        container = pod["spec"]["containers"][0]
        if "image_pull_policy" in asked:
            container["imagePullPolicy"] = spec.image_pull_policy
        if "image_pull_secrets" in asked:
            pod["spec"]["imagePullSecrets"] = [{"name": secret} for secret in spec.image_pull_secrets]
        if "service_account" in asked:
            pod["spec"]["serviceAccountName"] = spec.service_account
        if "termination_grace_seconds" in asked:
            pod["spec"]["terminationGracePeriodSeconds"] = spec.termination_grace_seconds
    return merge(manifest, {"spec": _gcs_fault_tolerance(spec)})


def _templates(manifest: KubeObject) -> list[KubeObject]:
    """The pod templates, head first."""
    groups = [manifest["spec"]["headGroupSpec"], *(manifest["spec"].get("workerGroupSpecs") or [])]
    return [group["template"] for group in groups]


def _mark(target: KubeObject, new_labels: Mapping[str, str], new_annotations: Mapping[str, str]) -> None:
    metadata = target.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **new_labels}
    if new_annotations or metadata.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **new_annotations}


def _add_storage(manifest: KubeObject, spec: ClusterSpec) -> None:
    """Give every pod the storage of checkpoints: a mount, or an object store's credentials."""
    for pod in _templates(manifest):
        container = pod["spec"]["containers"][0]
        if isinstance(spec.storage, PvcStorage):
            _mount_claim(pod["spec"], container, spec.storage)
        elif isinstance(spec.storage, ObjectStorage) and spec.storage.secret:
            container.setdefault("envFrom", []).append({"secretRef": {"name": spec.storage.secret}})


def _mount_claim(pod: KubeObject, container: KubeObject, storage: PvcStorage) -> None:
    taken = [mount["mountPath"] for mount in container.get("volumeMounts") or []]
    if storage.mount_path in taken or STORAGE_VOLUME in named(pod.get("volumes") or []):
        why = f"the pods mount something at {storage.mount_path} already"
        raise InvalidSpec("Refused storage", which=storage.claim, why=why, next_step="choose another mount_path")
    mount: dict[str, Any] = {"name": STORAGE_VOLUME, "mountPath": storage.mount_path}
    if storage.sub_path:
        mount["subPath"] = storage.sub_path
    volume = {"name": STORAGE_VOLUME, "persistentVolumeClaim": {"claimName": storage.claim}}
    pod.setdefault("volumes", []).append(volume)
    container.setdefault("volumeMounts", []).append(mount)


def _add_token(manifest: KubeObject, spec: ClusterSpec, token_secret: str | None) -> None:
    """Token mode: KubeRay's own option, or Ray's environment where KubeRay would drop the option without a word."""
    if spec.auth != "token":
        return
    if token_secret is None:
        manifest["spec"]["authOptions"] = {"mode": "token"}
        return
    speakers = [pod["spec"]["containers"][0] for pod in _templates(manifest)]
    if spec.autoscaler is not None:  # the sidecar speaks to Ray as well
        speakers.append(manifest["spec"].setdefault("autoscalerOptions", {}))
    for speaker in speakers:
        speaker["env"] = merge({"env": speaker.get("env") or []}, {"env": token_variables(token_secret)})["env"]
