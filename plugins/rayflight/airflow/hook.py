"""The hook of ``rayflight`` connections: what the form's *Test* button asks. Creates nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from rayflight.airflow import access
from rayflight.errors import RayflightError

if TYPE_CHECKING:
    from rayflight.backends.base import ClusterBackend


class RayflightHook(BaseHook):
    """Reaches the place where a connection's clusters live."""

    conn_name_attr = "rayflight_conn_id"
    default_conn_name = "rayflight_default"
    conn_type = "rayflight"
    hook_name = "Rayflight"

    def __init__(self, rayflight_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rayflight_conn_id = rayflight_conn_id

    def get_conn(self) -> ClusterBackend:
        """The backend, to be entered with ``async with``. Raises InvalidSpec."""
        return access.backend(access.access(self.rayflight_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Whether flights can be made over it, and one sentence about what works or what does not."""
        try:
            said = asyncio.run(_ask(self.get_conn()))
            url = access.extras(self.rayflight_conn_id).get("archive")
            if url is not None:
                access.archive(str(url)).require_library()
        except RayflightError as error:
            return False, str(error)
        return True, said


async def _ask(backend: ClusterBackend) -> str:
    async with backend:
        return await backend.checkup()
