"""What a RayCluster manifest needs to find in its namespace. Pure: reads a manifest, asks nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rayflight.kube.resources import CLAIMS, CONFIG_MAPS, PRIORITY_CLASSES, SECRETS, SERVICE_ACCOUNTS, Resource

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reference:
    """One object that must exist, and the keys of it that are read."""

    resource: Resource
    name: str
    keys: frozenset[str] = field(default=frozenset())


def references(manifest: Raw) -> list[Reference]:
    """Each object once, with all keys that are asked of it; optional ones are left out."""
    found: dict[tuple[Resource, str], set[str]] = {}
    for resource, name, key in _all(manifest["spec"]):
        keys = found.setdefault((resource, name), set())
        keys |= {key} if key else set()
    return [Reference(resource, name, frozenset(keys)) for (resource, name), keys in found.items()]


def _all(spec: Raw) -> Iterator[tuple[Resource, str, str]]:
    for group in (spec.get("headGroupSpec") or {}, *(spec.get("workerGroupSpecs") or ())):
        yield from _of_pod((group.get("template") or {}).get("spec") or {})
    redis = spec.get("gcsFaultToleranceOptions") or {}
    yield from _of_variables([redis.get("redisUsername") or {}, redis.get("redisPassword") or {}])
    yield from _of_variables((spec.get("autoscalerOptions") or {}).get("env") or ())
    secret = (spec.get("authOptions") or {}).get("secretName")
    if secret:
        yield SECRETS, secret, ""


def _of_pod(pod: Raw) -> Iterator[tuple[Resource, str, str]]:
    if pod.get("serviceAccountName"):
        yield SERVICE_ACCOUNTS, pod["serviceAccountName"], ""
    if pod.get("priorityClassName"):
        yield PRIORITY_CLASSES, pod["priorityClassName"], ""
    for item in pod.get("imagePullSecrets") or ():
        yield SECRETS, item["name"], ""
    for volume in pod.get("volumes") or ():
        yield from _of_volume(volume)
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        yield from _of_variables(container.get("env") or ())
        for source in container.get("envFrom") or ():
            yield from _of_source(source)


def _of_volume(volume: Raw) -> Iterator[tuple[Resource, str, str]]:
    sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
    for source in sources:
        claim, secret, config = (source.get(key) or {} for key in ("persistentVolumeClaim", "secret", "configMap"))
        if claim.get("claimName"):
            yield CLAIMS, claim["claimName"], ""
        name = secret.get("secretName") or secret.get("name")
        if name and not secret.get("optional"):
            yield SECRETS, name, ""
        if config.get("name") and not config.get("optional"):
            yield CONFIG_MAPS, config["name"], ""


def _of_variables(variables: Iterable[Raw]) -> Iterator[tuple[Resource, str, str]]:
    for variable in variables:
        source = variable.get("valueFrom") or {}
        for kind, resource in (("secretKeyRef", SECRETS), ("configMapKeyRef", CONFIG_MAPS)):
            reference = source.get(kind) or {}
            if reference.get("name") and not reference.get("optional"):
                yield resource, reference["name"], reference["key"]


def _of_source(source: Raw) -> Iterator[tuple[Resource, str, str]]:
    for kind, resource in (("secretRef", SECRETS), ("configMapRef", CONFIG_MAPS)):
        reference = source.get(kind) or {}
        if reference.get("name") and not reference.get("optional"):
            yield resource, reference["name"], ""
