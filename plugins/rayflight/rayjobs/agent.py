"""Log files by byte range, from the dashboard agent that runs beside every raylet (port 52365). Reads only.

The agent serves its log folder under ``/logs/`` as static files, so that HTTP ranges work: the one way to resume a log
at any byte without `exec`. ``transport`` must reach that agent (for KubeRay ``pods/POD:52365/proxy``).
"""

from __future__ import annotations

import re
from urllib.parse import quote

from rayflight.rayjobs.refusals import kube_status, refusal
from rayflight.rayjobs.transport import Transport

AGENT_PORT = 52365
READ_TIMEOUT = 20.0
_TOTAL = re.compile(r"bytes \d+-\d+/(\d+)")


async def read_range(transport: Transport, filename: str, offset: int, limit: int) -> bytes:
    """Bytes ``offset``..``offset+limit``; empty when the file is not there yet or is shorter. Raises ApiError."""
    return (await read_part(transport, filename, offset, limit))[0]


async def read_part(transport: Transport, filename: str, offset: int, limit: int) -> tuple[bytes, int | None]:
    """The same, and the size of the whole file where it was said."""
    response = await transport.request(
        "GET",
        f"/logs/{quote(filename)}",
        headers={"Range": f"bytes={offset}-{offset + limit - 1}"},
        timeout=READ_TIMEOUT,
    )
    if response.status == 206:
        total = _TOTAL.match(response.headers.get("content-range", ""))
        return response.body[:limit], int(total[1]) if total else None
    if response.status == 200:  # something on the way dropped the Range header
        return response.body[offset : offset + limit], len(response.body)
    if response.status == 416 or (response.status == 404 and kube_status(response) is None):
        return b"", None
    raise refusal(response, "Cannot read the log file", filename)
