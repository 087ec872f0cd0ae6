"""KubeRay clusters through a Kubernetes API: implements ``ClusterBackend``. Holds no state that a restart loses.

The parts stand beside it (``kube_*``): this module only puts them together and keeps one watch per cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

from rayflight.backends import kube_bundle, kube_dump, kube_remains
from rayflight.backends.base import ClusterRef, LogFile
from rayflight.backends.kube_create import Creator
from rayflight.backends.kube_jobs import Dashboard
from rayflight.backends.kube_observe import Observer
from rayflight.backends.kube_preflight import Preflight
from rayflight.backends.kube_watch import ClusterWatch
from rayflight.backends.stored import reference
from rayflight.errors import ApiError, ClusterGone, Conflict, RequestRejected
from rayflight.kube.access import KubeAccess
from rayflight.kube.client import KubeClient
from rayflight.kube.hub import Hub, shared
from rayflight.kube.resources import NAMESPACES, PODS, RAYCLUSTERS
from rayflight.labels import Owner
from rayflight.rayjobs.client import RayJobsClient
from rayflight.snapshot.model import Snapshot
from rayflight.specs import ClusterSpec


class KubernetesBackend:
    """One Kubernetes API as a place for clusters. Enter it; on exit only watches and connections are left."""

    name = "kubernetes"

    def __init__(self, access: KubeAccess) -> None:
        self._access = access
        self._stack = AsyncExitStack()
        self._entered: Hub | None = None
        self._clusters: dict[str, _Followed] = {}

    async def __aenter__(self) -> Self:
        self._entered = await self._stack.enter_async_context(await shared(self._access))
        return self

    async def __aexit__(self, *exc: object) -> None:
        for followed in self._clusters.values():
            await followed.close()
        self._clusters.clear()
        await self._stack.aclose()

    @property
    def _hub(self) -> Hub:
        if self._entered is None:
            raise RuntimeError("enter the backend first: `async with KubernetesBackend(access) as backend`")
        return self._entered

    @property
    def _client(self) -> KubeClient:
        return self._hub.client

    async def preflight(self, spec: ClusterSpec, namespace: str) -> list[str]:
        """Ask everything that can be asked before anything is created."""
        return await Preflight(self._client, self._access).ask(spec, namespace)

    async def checkup(self) -> str:
        """What is reached, and what may be done in the connection's own namespace."""
        return await Preflight(self._client, self._access).checkup(self._access.allowed())

    async def create(
        self, spec: ClusterSpec, owner: Owner, namespace: str, *, avoid: Collection[str] = ()
    ) -> ClusterRef:
        """Create the cluster, or adopt the one that this same attempt made from the same spec."""
        return await Creator(self._client).create(spec, owner, self._access.allowed(namespace), avoid=avoid)

    async def replace_pod(self, ref: ClusterRef, name: str, uid: str) -> None:
        """Delete the pod by UID; KubeRay makes another. Raises PermissionMissing."""
        try:
            await self._client.delete(PODS, name, ref.namespace, uid=uid, propagation="Background")
        except Conflict:
            return  # another pod has the name

    async def find(self, namespace: str, selector: str) -> Sequence[ClusterRef]:
        """Clusters that carry these labels, oldest first."""
        found = await self._client.list(RAYCLUSTERS, self._access.allowed(namespace), selector=selector)
        return sorted((reference(item) for item in found.items), key=lambda ref: (ref.created_at or "", ref.name))

    async def lacks_namespace(self, namespace: str) -> bool:
        """Whether the API server says that there is none of that name; who may not ask is told nothing."""
        try:
            return await self._client.get(NAMESPACES, namespace) is None
        except ApiError:
            return False

    async def annotate(self, ref: ClusterRef, annotations: Mapping[str, str | None]) -> None:
        """Set (or with None remove) annotations; refuses another UID. Raises ClusterGone."""
        await self._change(ref, {"metadata": {"annotations": dict(annotations)}})

    async def resume(self, ref: ClusterRef) -> None:
        """Let a cluster that was created suspended have its pods; refuses another UID. Raises ClusterGone."""
        await self._change(ref, {"metadata": {}, "spec": {"suspend": False}})

    async def _change(self, ref: ClusterRef, body: dict[str, Any]) -> None:
        """A merge patch that holds only for this UID."""
        body["metadata"]["uid"] = ref.uid
        try:
            await self._client.patch(RAYCLUSTERS, ref.name, body, ref.namespace)
        except (Conflict, RequestRejected) as error:
            if error.status != 404 and "uid" not in error.why.lower():
                raise
            raise ClusterGone(
                "Cannot change the cluster:", which=str(ref), why="it is gone, or another one has its name"
            ) from error

    async def observe(self, ref: ClusterRef, *, ray: bool = True) -> Snapshot:
        """Everything now seen of this cluster; raises only when nothing can be read."""
        return await self._follow(ref).observer.observe(ray=ray)

    async def changes(self, ref: ClusterRef, *, at_least_every: float) -> AsyncGenerator[None]:
        """Yields at once, then whenever something of this cluster may have changed, at least every so many seconds."""
        async for _ in self._follow(ref).watch.changes(at_least_every):
            yield

    async def delete(self, ref: ClusterRef) -> None:
        """Delete by UID, in the background: the operator lets go at once and the garbage collector takes the pods."""
        try:
            await self._client.delete(RAYCLUSTERS, ref.name, ref.namespace, uid=ref.uid, propagation="Background")
        except Conflict:
            return  # another cluster has the name: this one is gone

    async def remains(self, ref: ClusterRef) -> Sequence[str]:
        """Everything of this cluster that is still there, in words. The API is asked once the watches see nothing."""
        watch = self._follow(ref).watch
        await watch.settled()
        seen = watch.left() if watch.current("rayclusters") and watch.current("pods") else []
        if seen:
            return [kube_remains.words(resource, item) for resource, item in seen]
        return await kube_remains.remains(self._client, ref)

    def jobs(self, ref: ClusterRef) -> RayJobsClient:
        """The Ray Jobs API of this cluster."""
        return self._follow(ref).dashboard.jobs

    async def logs(self, ref: ClusterRef) -> Sequence[LogFile]:
        """Every log that can be collected now."""
        return await self._follow(ref).logs.list()

    async def read_log(self, ref: ClusterRef, log: LogFile, *, limit: int) -> AsyncGenerator[bytes]:
        """The log in blocks, at most ``limit`` bytes and a mark where it was cut."""
        async for block in self._follow(ref).logs.read(log, limit):
            yield block

    async def dump(self, ref: ClusterRef) -> Mapping[str, Any]:
        """Raw objects of both layers for the archive: file name to JSON data, secrets masked."""
        return await kube_dump.dump(self._client, ref, self.jobs(ref))

    async def everything(self, ref: ClusterRef) -> Mapping[str, Any]:
        """Everything around the cluster, for a bundle: file name to JSON data or text, secrets included."""
        return await kube_bundle.everything(self._client, ref, self.jobs(ref))

    def dashboard_url(self, ref: ClusterRef) -> str | None:
        """The service proxy of the API server (it asks for credentials), or the address inside the cluster."""
        return self._follow(ref).dashboard.url

    def way_in(self, ref: ClusterRef) -> str:
        """KubeRay's head service, forwarded."""
        return f"kubectl -n {ref.namespace} port-forward svc/{ref.name}-head-svc 8265"

    def _follow(self, ref: ClusterRef) -> _Followed:
        if ref.uid not in self._clusters:
            self._access.allowed(ref.namespace)
            self._clusters[ref.uid] = _Followed(self._hub, self._access, ref)
        return self._clusters[ref.uid]


class _Followed:
    """What belongs to one cluster: its watch, its dashboard, its logs."""

    def __init__(self, hub: Hub, access: KubeAccess, ref: ClusterRef) -> None:
        self._hub, self._ref = hub, ref
        self._watch: ClusterWatch | None = None
        self.dashboard = Dashboard(hub.client, access, ref)
        self.logs = self.dashboard.logs
        self._observer: Observer | None = None

    @property
    def watch(self) -> ClusterWatch:
        """Joined when first needed: whoever only speaks to Ray watches nothing."""
        if self._watch is None:
            self._watch = ClusterWatch(self._hub, self._ref)
        return self._watch

    @property
    def observer(self) -> Observer:
        """Takes the snapshots."""
        if self._observer is None:
            self._observer = Observer(self._hub, self._ref, self.watch, lambda: self.dashboard.jobs)
        return self._observer

    async def close(self) -> None:
        """Leave the watches and close the direct connection."""
        if self._watch is not None:
            self._watch.close()
        await self.dashboard.close()
