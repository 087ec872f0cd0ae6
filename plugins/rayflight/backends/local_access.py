"""Where local clusters live and how they are started: the resolved extras of a connection. Data only."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rayflight.errors import InvalidSpec

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NETWORKS = ("fenced", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAccess:
    """``folder`` keeps a record of every cluster and is the authority: who shares it shares the clusters.

    ``ray`` is the executable whose Python the scripts run on. ``network``: ``fenced`` has loopback only (where the
    system allows it), ``host`` reaches the world and is guarded by a token.
    """

    folder: Path
    ray: str
    network: str = "fenced"
    namespace: str = "default"
    allowed_namespaces: tuple[str, ...] = ()

    @classmethod
    def from_extras(cls, extras: Mapping[str, Any], *, home: Path) -> LocalAccess:
        """Pure but for the user's home. Raises ValueError, TypeError on what is no such extra."""
        allowed = extras.get("allowed_namespaces") or ()
        network = extras.get("network", "fenced")
        if network not in _NETWORKS:
            raise ValueError(f"network is {network!r}, it must be one of {', '.join(_NETWORKS)}")
        return cls(
            folder=Path(extras.get("folder") or home / "rayflight-local").expanduser().absolute(),
            ray=str(extras.get("ray") or Path(sys.executable).with_name("ray")),
            network=network,
            namespace=extras.get("namespace") or "default",
            allowed_namespaces=tuple(allowed.replace(",", " ").split() if isinstance(allowed, str) else allowed),
        )

    def allowed(self, namespace: str | None = None) -> str:
        """The namespace to use: a folder, which keeps the clusters of different people apart. Raises InvalidSpec."""
        wanted = namespace or self.namespace
        if not _NAME.fullmatch(wanted):
            raise InvalidSpec(
                "No name of a namespace:",
                which=repr(wanted),
                why="it must hold at most 63 of a-z, 0-9 and '-', with neither end a '-'",
                next_step="name another; nothing was created",
            )
        if self.allowed_namespaces and wanted not in self.allowed_namespaces:
            raise InvalidSpec(
                "Namespace not allowed",
                which=repr(wanted),
                why=f"this connection allows {', '.join(self.allowed_namespaces)}",
                next_step="choose one of them",
            )
        return wanted
