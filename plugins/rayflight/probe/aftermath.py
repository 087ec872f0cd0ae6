"""What the probe left behind on a node, asked when its ranks are gone: processes that did not end, memory that is held.

Runs as a small task on each node where there is something to look for; measures, kills only the probe's own processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

from .child import held, in_child

_GONE_SECONDS = 3.0
_DRIVER_SECONDS = 10


def aftermath(pids: list[int], *, devices: bool) -> dict[str, Any]:
    """``{held: [sentence], memory_free: {uuid: bytes}}``."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + _GONE_SECONDS
    while any(held(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.1)
    left = [text for pid in pids for text in [held(pid)] if text]
    found = in_child("nvml", _DRIVER_SECONDS).get("devices", []) if devices else []
    return {"held": left, "memory_free": {it["uuid"]: it["memory"]["free_bytes"] for it in found if it.get("memory")}}
