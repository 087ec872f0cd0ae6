"""Creates a RayCluster strictly, or adopts the one that this same attempt made. Leaves nothing half-made behind.

Token mode: KubeRay 1.5.0 has no ``spec.authOptions`` and would drop it without a word, leaving the cluster open to all.
A strict create refuses instead; then the token goes by Ray's own environment, from a Secret that the cluster owns. The
Secret is made after the cluster (pods wait for it), so that a crash between the two leaves only what deleting the
cluster removes; whoever adopts the cluster makes the Secret that is missing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_room import require_room
from rayflight.backends.stored import check_ours, reference
from rayflight.errors import Conflict, ForeignObject, InvalidSpec, RequestRejected
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import RAYCLUSTERS, SECRETS
from rayflight.labels import Owner
from rayflight.manifests import build, dropped_fields, token_secret, token_secret_name
from rayflight.specs import ClusterSpec

_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_AUTH_FIELD = "spec.authOptions"
_TOKEN_BYTES = 32


class Creator:
    """Creates in one namespace of one API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def create(
        self, spec: ClusterSpec, owner: Owner, namespace: str, *, avoid: Collection[str] = ()
    ) -> ClusterRef:
        """Raises InvalidSpec (the field that the CRD does not know is named), ForeignObject, RequestRejected."""
        manifest = build(spec, owner, namespace, avoid=avoid)
        if avoid:
            await require_room(self._client, manifest, avoid)
        try:
            cluster = await self._create_or_adopt(manifest, spec, owner)
        except InvalidSpec as error:
            if not lacks_token_option(spec, error):
                raise
            secret = token_secret_name(owner.cluster_name)
            manifest = build(spec, owner, namespace, token_secret=secret, avoid=avoid)
            cluster = await self._create_or_adopt(manifest, spec, owner)
        if spec.auth == "token" and "authOptions" not in cluster["spec"]:
            await self._ensure_token(cluster, owner)
        return reference(cluster)

    async def try_out(self, manifest: JsonObject) -> None:
        """A dry run of the create: all of admission, nothing stored. Raises as ``create``."""
        try:
            await self._client.create(RAYCLUSTERS, manifest, manifest["metadata"]["namespace"], dry_run=True)
        except RequestRejected as error:
            raise _as_invalid(error, manifest) from error

    async def _create_or_adopt(self, manifest: JsonObject, spec: ClusterSpec, owner: Owner) -> JsonObject:
        namespace = manifest["metadata"]["namespace"]
        try:
            stored = await self._client.create(RAYCLUSTERS, manifest, namespace)
        except Conflict:
            existing = await self._client.get(RAYCLUSTERS, manifest["metadata"]["name"], namespace)
            if existing is None:  # it was on its way out and is gone now
                stored = await self._client.create(RAYCLUSTERS, manifest, namespace)
            else:
                check_ours(existing, spec, owner)
                stored = existing
        except RequestRejected as error:
            raise _as_invalid(error, manifest) from error
        await self._check_stored(manifest, stored)
        return stored

    async def _check_stored(self, asked: JsonObject, stored: JsonObject) -> None:
        """What an old API server or a mutating webhook dropped must not pass for granted."""
        dropped = [path for path in dropped_fields(asked, stored) if not path.startswith("metadata.")]
        if not dropped:
            return
        meta = stored["metadata"]
        await self._client.delete(RAYCLUSTERS, meta["name"], meta["namespace"], uid=meta["uid"])
        raise InvalidSpec(
            "The cluster was not stored as asked:",
            which=f"{meta['namespace']}/{meta['name']}",
            why=f"the API server dropped {', '.join(dropped)}; the cluster was deleted again",
            next_step="remove the field, or upgrade KubeRay's CRDs (Helm never does)",
        )

    async def _ensure_token(self, cluster: JsonObject, owner: Owner) -> None:
        meta = cluster["metadata"]
        name = token_secret_name(meta["name"])
        body = token_secret(
            meta["name"], meta["uid"], meta["namespace"], secrets.token_urlsafe(_TOKEN_BYTES), owner.labels()
        )
        try:
            await self._client.create(SECRETS, body, meta["namespace"])
        except Conflict:
            existing = await self._client.get(SECRETS, name, meta["namespace"])
            if existing is not None and _owned_by(existing, meta["uid"]):
                return
            await self._client.delete(RAYCLUSTERS, meta["name"], meta["namespace"], uid=meta["uid"])
            raise ForeignObject(
                "A Secret stands in the way:",
                which=f"{meta['namespace']}/{name}",
                why="it does not belong to this cluster, which was deleted again",
                next_step="see whose it is, and delete it or use another namespace",
            ) from None


def lacks_token_option(spec: ClusterSpec, error: InvalidSpec) -> bool:
    """Whether the only thing that the CRD does not know is token mode, for which there is another way."""
    return spec.auth == "token" and error.why.endswith(f"does not know {_AUTH_FIELD}")


def _owned_by(item: JsonObject, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in item["metadata"].get("ownerReferences") or ())


def _as_invalid(error: RequestRejected, manifest: JsonObject) -> RequestRejected | InvalidSpec:
    """A refusal of what was written is the writer's to mend; admission (quota, webhooks) stays what it is."""
    if error.status not in (400, 422) or "admission webhook" in error.why:
        return error
    unknown = _UNKNOWN.findall(error.why)
    why = f"the installed RayCluster CRD does not know {', '.join(unknown)}" if unknown else error.why
    return InvalidSpec(
        "The API server refuses the cluster:",
        which=f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}",
        why=why,
        next_step="correct the spec, or upgrade KubeRay's CRDs if the field is newer than they are",
    )
