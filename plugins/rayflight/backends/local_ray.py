"""The dashboard of one local cluster: by the socket file out of its fence, or by loopback with the token.

Finds the way anew from ``status.json`` whenever that changes: a head that was started again may have other ports.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from rayflight.backends import local_logs
from rayflight.backends.base import ClusterRef
from rayflight.backends.local_state import PLAN, STATUS, read_json
from rayflight.errors import ApiUnreachable
from rayflight.rayjobs.client import RayJobsClient
from rayflight.rayjobs.transport import HttpxTransport, Request, Response, Transport

SOCKET = "dashboard.sock"  # as in rayflight.keeper.main
TOKEN = "token"  # noqa: S105 - the name of a file


class Dashboard(Transport):
    """A way that may change with the head."""

    def __init__(self, record: Path, ref: ClusterRef) -> None:
        self._record, self._ref = record, ref
        self._way: tuple[str, str | None] | None = None
        self._transport: HttpxTransport | None = None
        self.jobs = RayJobsClient(self, self.read_file, bare=_Bare(self))

    async def send(self, request: Request) -> Response:
        """One request by the way that is open now."""
        transport = await self._open()
        return await transport.send(request)

    async def without_token(self) -> HttpxTransport:
        """The same way, as a stranger comes. The caller closes it."""
        await self._open()
        address, socket = self._way or ("", None)
        return HttpxTransport(address, socket=socket)

    async def read_file(self, node_id: str, filename: str, offset: int, limit: int) -> bytes | None:  # noqa: ARG002
        """Implements ``rayjobs.client.ReadFile``: the disk is nearer than any server."""
        plan = read_json(self._record / PLAN)
        if plan is None:
            return None
        path = local_logs.find(filename, plan["trees"])
        return b"" if path is None else await asyncio.to_thread(local_logs.read_range, path, offset, limit)

    async def close(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _open(self) -> HttpxTransport:
        status, plan = read_json(self._record / STATUS), read_json(self._record / PLAN)
        if status is None or plan is None:
            raise ApiUnreachable(
                "The cluster has no dashboard (yet):", which=str(self._ref), why="its keeper has not written a status"
            )
        socket = f"{plan['run_folder']}/{SOCKET}" if status["fenced"] else None
        way = (f"http://127.0.0.1:{status['dashboard_port']}", socket)
        if self._transport is None or way != self._way:
            await self.close()
            guarded = plan["token"] or not status["fenced"]
            token = (self._record / TOKEN).read_text() if guarded else None
            self._way, self._transport = way, HttpxTransport(way[0], token, socket=socket)
        return self._transport


class _Bare(Transport):
    """The same way, without the token."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    async def send(self, request: Request) -> Response:
        """Send as it is."""
        async with await self._dashboard.without_token() as way:
            return await way.send(request)
