"""Everything that can be asked before anything is created. Asks and dry-runs; creates nothing.

What must be there raises; what only makes Rayflight see less (nodes, quotas) becomes a warning that says what is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rayflight.backends.kube_create import Creator, lacks_token_option
from rayflight.backends.kube_references import Reference, references
from rayflight.errors import InvalidSpec, PermissionMissing, RequestRejected
from rayflight.kube.access import KubeAccess
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import (
    CLAIMS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    RAYCLUSTERS,
    SECRETS,
    SERVICES,
    Resource,
)
from rayflight.labels import PREFIX
from rayflight.manifests import build_cluster, token_secret_name
from rayflight.specs import ClusterSpec

_TRIAL_NAME = "rayflight-preflight"


@dataclass(frozen=True, slots=True)
class Right:
    """Something the credentials must (or, with ``lost``, should) be allowed to do."""

    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    lost: str = ""  # what cannot be seen or done without it; empty: nothing works without it

    def __str__(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)


def rights(access: KubeAccess, *, token: bool, replace: bool = False) -> list[Right]:
    """What a flight needs; docs/permissions.md has the same as a Role."""
    needed = [
        Right(RAYCLUSTERS, ("get", "list", "watch", "create", "patch", "delete")),
        Right(PODS, ("list", "watch")),
        Right(EVENTS, ("list", "watch"), lost="a cluster that cannot start is not explained"),
        Right(SERVICES, ("list",), lost="the head service is not verified"),
        Right(PODS, ("get",), "log", lost="pod logs are not collected"),
        Right(PODS, ("get",), "proxy", lost="Ray's log files are read whole from the head, not by range from each pod"),
        Right(NODES, ("list", "watch"), lost="what can never fit is not told from what must wait"),
        Right(QUOTAS, ("list",), lost="a quota that stands in the way is not explained"),
        Right(CLAIMS, ("list",), lost="volumes are not verified"),
        Right(JOBS, ("list",), lost="a job of the operator that outlives its cluster is not seen"),
    ]
    if replace:
        needed.append(Right(PODS, ("delete",), lost="worker pods that fail the verification cannot be replaced"))
    if access.dashboard == "proxy":
        needed.append(Right(SERVICES, ("get", "create", "update"), "proxy"))  # update: Ray takes code by PUT
    if token:
        needed.append(Right(SECRETS, ("get", "create")))
    return needed


class Preflight:
    """One round of questions."""

    def __init__(self, client: KubeClient, access: KubeAccess) -> None:
        self._client, self._access = client, access

    async def ask(self, spec: ClusterSpec, namespace: str) -> list[str]:
        """Warnings. Raises ApiUnreachable, TokenRefused, PermissionMissing, InvalidSpec, RequestRejected."""
        self._access.allowed(namespace)
        await self._client.version()
        await asyncio.gather(self._namespace(namespace), self._operator())
        replace = spec.verification.on_fail == "replace"
        warnings = await self._rights(namespace, token=spec.auth == "token", replace=replace)
        missing, unknown = await self._references(references(_trial_manifest(spec, namespace)), namespace)
        if missing:
            raise InvalidSpec(
                "The cluster would never start:",
                which=f"in namespace {namespace}",
                why="there is no " + ", no ".join(missing),
                next_step="create what is missing, or correct its name in the spec",
            )
        return [*warnings, *unknown, *await self._trial(spec, namespace)]

    async def checkup(self, namespace: str) -> str:
        """One sentence about what was reached and what may be done there. Raises what ``ask`` raises."""
        self._access.allowed(namespace)
        version = await self._client.version()
        await asyncio.gather(self._namespace(namespace), self._operator())
        dimmed = await self._rights(namespace, token=False)
        may = "all rights" if not dimmed else f"all rights that a flight needs, but {'; '.join(dimmed)}"
        way = "through the API server" if self._access.dashboard == "proxy" else "by cluster DNS"
        kuberay = f"{RAYCLUSTERS.group}/{RAYCLUSTERS.version} (KubeRay)"
        return (
            f"Kubernetes {version} at {self._client.server} serves {kuberay}, "
            f"Ray is reached {way}, and in namespace {namespace} there are {may}."
        )

    async def _namespace(self, namespace: str) -> None:
        try:
            found = await self._client.get(NAMESPACES, namespace)
        except PermissionMissing:
            return  # a namespaced Role cannot ask that
        if found is None:
            raise InvalidSpec("No such namespace:", which=namespace, next_step="create it, or name another")
        if (found.get("status") or {}).get("phase") == "Terminating":
            raise InvalidSpec("The namespace is being deleted:", which=namespace, next_step="name another")

    async def _operator(self) -> None:
        if not await self._client.serves(RAYCLUSTERS):
            raise InvalidSpec(
                "KubeRay is not installed",
                which=f"at {self._client.server}",
                why=f"the API server does not know {RAYCLUSTERS}",
                next_step="install KubeRay 1.5 or later with its CRDs",
            )

    async def _rights(self, namespace: str, *, token: bool, replace: bool = False) -> list[str]:
        wanted = rights(self._access, token=token, replace=replace)
        asked = [(right, verb) for right in wanted for verb in right.verbs]
        answers = await asyncio.gather(
            *(self._client.may(verb, right.resource, namespace, right.subresource) for right, verb in asked)
        )
        refused: dict[Right, list[str]] = {}
        for (right, verb), allowed in zip(asked, answers, strict=True):
            if not allowed:
                refused.setdefault(right, []).append(verb)
        needed = [f"{', '.join(verbs)} {right}" for right, verbs in refused.items() if not right.lost]
        if needed:
            raise PermissionMissing(
                "The connection lacks permissions:",
                which=f"in namespace {namespace}",
                why=f"it may not {'; '.join(needed)}",
                next_step="grant them with a Role and a RoleBinding (docs/permissions.md)",
            )
        return [f"no permission to {', '.join(verbs)} {right}: {right.lost}" for right, verbs in refused.items()]

    async def _references(self, wanted: Sequence[Reference], namespace: str) -> tuple[list[str], list[str]]:
        answers = await asyncio.gather(*(self._reference(item, namespace) for item in wanted))
        missing = [text for found, text in answers if text and found]
        unknown = [text for found, text in answers if text and not found]
        return missing, unknown

    async def _reference(self, wanted: Reference, namespace: str) -> tuple[bool, str]:
        """(certain?, what is wrong or empty)."""
        words = f"{wanted.resource.one} {wanted.name}"
        try:
            found = await self._client.get(wanted.resource, wanted.name, namespace)
        except PermissionMissing:
            return False, f"could not check that {words} exists: no permission to get it"
        if found is None:
            return True, words
        keys = {*(found.get("data") or {}), *(found.get("binaryData") or {})}
        lacking = sorted(wanted.keys - keys)
        return True, f"key {', '.join(lacking)} in {words}" if lacking else ""

    async def _trial(self, spec: ClusterSpec, namespace: str) -> list[str]:
        """A dry-run create. A webhook that cannot do that is no reason to refuse."""
        creator = Creator(self._client)
        try:
            try:
                await creator.try_out(_trial_manifest(spec, namespace))
            except InvalidSpec as error:
                if not lacks_token_option(spec, error):
                    raise
                await creator.try_out(_trial_manifest(spec, namespace, token_secret_name(_TRIAL_NAME)))
        except RequestRejected as error:
            if "dry run" not in error.why.lower():
                raise
            return [f"the create could not be tried beforehand: {error.why}"]
        return []


def _trial_manifest(spec: ClusterSpec, namespace: str, token_secret: str | None = None) -> JsonObject:
    return build_cluster(
        spec,
        name=_TRIAL_NAME,
        namespace=namespace,
        own_labels={PREFIX + "preflight": "true"},
        own_annotations={},
        token_secret=token_secret,
    )
