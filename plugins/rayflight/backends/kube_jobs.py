"""The dashboard of one cluster: finds the way to it when first asked, keeps the token, reads log files by range.

Knows where Ray is; what Ray says is ``rayjobs``' business.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from rayflight.backends.base import ClusterRef
from rayflight.backends.kube_logs import KubeLogs, closed
from rayflight.backends.kube_ray import (
    DASHBOARD_PORT,
    FallbackTransport,
    ProxyTransport,
    TokenTransport,
    direct,
    read_token,
)
from rayflight.backends.kube_topics import CLUSTER_LABEL
from rayflight.errors import ApiError, ApiUnreachable
from rayflight.kube.access import KubeAccess
from rayflight.kube.client import JsonObject, KubeClient
from rayflight.kube.resources import PODS, RAYCLUSTERS, SERVICES
from rayflight.rayjobs.agent import read_range
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.transport import HttpxTransport, Request, Response, Transport
from rayflight.snapshot.ray import ray_nodes

_HEAD = "ray.io/node-type=head"
_CLOSED_SECONDS = 30.0  # how long a way that was closed is not tried again


class Dashboard(Transport):
    """One cluster's dashboard, and the agents beside its Ray nodes."""

    def __init__(self, client: KubeClient, access: KubeAccess, ref: ClusterRef) -> None:
        self._client, self._access, self._ref = client, access, ref
        self._inner: Transport | None = None
        self._transport: Transport | None = None
        self._direct: HttpxTransport | None = None
        self._pods: dict[str, str] = {}
        self._closed_until = float("-inf")
        self.logs = KubeLogs(client, ref, self._token)
        self.jobs = RayJobsClient(self, self.read_file, bare=_Bare(self._way))

    @property
    def url(self) -> str:
        """For a person. The name is KubeRay's rule, not looked up: this must not wait for anything."""
        service = f"{self._ref.name}-head-svc"
        if self._access.dashboard == "direct":
            return f"http://{service}.{self._ref.namespace}.svc:{DASHBOARD_PORT}"
        path = SERVICES.path(self._ref.namespace, f"{service}:dashboard", "proxy")
        return f"{self._client.server}{path}/"

    async def send(self, request: Request) -> Response:
        """By the way that is found when it is first asked for, with the token where Ray asks for one."""
        if self._transport is None:
            self._transport = TokenTransport(await self._way(), self._token)
        return await self._transport.send(request)

    async def read_file(self, node_id: str, filename: str, offset: int, limit: int) -> bytes | None:
        """Implements ``rayjobs.client.ReadFile`` through the agent of the node's pod."""
        if time.monotonic() < self._closed_until:
            return None
        try:
            pod = await self._pod_of(node_id)
            return None if pod is None else await read_range(self.logs.agent(pod), filename, offset, limit)
        except ApiError as error:
            if not closed(error):
                raise
            self._closed_until = time.monotonic() + _CLOSED_SECONDS
            self._pods.pop(node_id, None)
            return None

    async def close(self) -> None:
        """Close the direct connection, if there is one."""
        if self._direct is not None:
            await self._direct.aclose()

    async def _way(self) -> Transport:
        """Found when it is first asked for; brings no token."""
        if self._inner is None:
            service = await self._service()
            if self._access.dashboard == "direct":
                self._inner = self._direct = direct(service, self._ref.namespace)
            else:
                proxied = ProxyTransport(self._client, "services", service, "dashboard", self._ref.namespace)
                self._inner = FallbackTransport(proxied, self._head_pod)
        return self._inner

    async def _service(self) -> str:
        """The head service's name, from the world: long cluster names are shortened by KubeRay's own rule."""
        cluster = await self._cluster()
        named = ((cluster.get("status") or {}).get("head") or {}).get("serviceName")
        return str(named or f"{self._ref.name}-head-svc")

    async def _head_pod(self) -> Transport | None:
        selector = f"{CLUSTER_LABEL}={self._ref.name},{_HEAD}"
        pods = (await self._client.list(PODS, self._ref.namespace, selector=selector)).items
        alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        running = [pod for pod in alive if (pod.get("status") or {}).get("phase") == "Running"]
        if not running:
            return None
        name = running[0]["metadata"]["name"]
        return ProxyTransport(self._client, "pods", name, DASHBOARD_PORT, self._ref.namespace)

    async def _token(self) -> str | None:
        return await read_token(self._client, await self._cluster())

    async def _cluster(self) -> JsonObject:
        found = await self._client.get(RAYCLUSTERS, self._ref.name, self._ref.namespace)
        if found is None or found["metadata"]["uid"] != self._ref.uid:
            raise ApiUnreachable(
                "The cluster has no dashboard:",
                which=str(self._ref),
                why="the RayCluster is gone, or another one has its name",
            )
        return found

    async def _pod_of(self, node_id: str) -> str | None:
        """The pod of a Ray node, remembered: a node never changes its pod."""
        if node_id not in self._pods:
            nodes = await self.request("GET", "/api/v0/nodes", params={"detail": "1", "limit": "10000"})
            summary = await self.request("GET", "/nodes", params={"view": "summary"})
            if nodes.status != 200 or summary.status != 200:
                return None
            try:
                found = ray_nodes(nodes.json(), summary.json())
            except (KeyError, TypeError, ValueError):  # Ray says that it cannot tell: take the other way
                return None
            self._pods |= {node.id: node.pod for node in found if node.pod}
        return self._pods.get(node_id)


class _Bare(Transport):
    """The same way, without the token."""

    def __init__(self, way: Callable[[], Awaitable[Transport]]) -> None:
        self._way = way

    async def send(self, request: Request) -> Response:
        """Send as it is."""
        way = await self._way()
        return await way.send(request)
