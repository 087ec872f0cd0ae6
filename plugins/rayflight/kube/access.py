"""How one Kubernetes API is reached and what may be done there. Data only: opens nothing, reads no file.

An access travels in triggers and connections as a plain dict; its repr shows no credentials.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from rayflight.errors import InvalidSpec
from rayflight.labels import digest

Dashboard = Literal["proxy", "direct"]
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAccess:
    """Where the credentials are (at most one of ``kubeconfig``, ``inline``, ``in_cluster``) and what they are for.

    With none of the three, the default kubeconfig is taken, and the pod's service account where there is none.
    ``token`` proves who asks instead of the user that is named there.
    ``dashboard`` says how Ray's dashboard is reached: through the API server's service proxy, or by cluster DNS.
    """

    kubeconfig: str | None = None
    inline: Mapping[str, Any] | None = field(default=None, repr=False, hash=False)
    in_cluster: bool = False
    context: str | None = None
    namespace: str = "default"
    allowed_namespaces: tuple[str, ...] = ()
    dashboard: Dashboard = "proxy"
    verify: bool = True
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = [name for name in ("kubeconfig", "inline", "in_cluster") if getattr(self, name)]
        if len(given) > 1:
            raise InvalidSpec(
                "Ambiguous Kubernetes connection",
                why=f"{' and '.join(given)} are both set",
                next_step="keep one of kubeconfig (a path), inline (a dict) and in_cluster",
            )
        if self.dashboard not in get_args(Dashboard):
            raise InvalidSpec(
                "Invalid Kubernetes connection",
                why=f"dashboard is {self.dashboard!r}",
                next_step="write proxy or direct",
            )

    @property
    def key(self) -> str:
        """Equal for accesses that may share one client and one set of watches."""
        inline = json.dumps(self.inline, sort_keys=True, default=str) if self.inline else ""
        return digest(self.kubeconfig, inline, self.in_cluster, self.context, self.verify, self.token or "", length=32)

    def allowed(self, namespace: str | None = None) -> str:
        """The namespace to use (the default one for None). Raises InvalidSpec where this access does not allow it."""
        wanted = namespace or self.namespace
        if not _DNS_LABEL.fullmatch(wanted):
            raise InvalidSpec(
                "No name of a namespace:",
                which=repr(wanted),
                why="it must hold at most 63 of a-z, 0-9 and '-', with neither end a '-'",
                next_step="name the namespace in which the cluster shall live; nothing was created",
            )
        if self.allowed_namespaces and wanted not in self.allowed_namespaces:
            raise InvalidSpec(
                "Namespace not allowed",
                which=repr(wanted),
                why=f"this connection allows {', '.join(self.allowed_namespaces)}",
                next_step="choose one of them, or ask the owner of the connection to add the namespace",
            )
        return wanted

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, credentials of an inline kubeconfig included."""
        data = asdict(self)
        data["allowed_namespaces"] = list(self.allowed_namespaces)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> KubeAccess:
        """The inverse of ``to_dict``. Raises InvalidSpec on an unknown key."""
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise InvalidSpec(
                "Invalid Kubernetes connection",
                why=f"unknown field {', '.join(unknown)}",
                next_step=f"known fields are {', '.join(sorted(known))}",
            )
        return cls(**{**data, "allowed_namespaces": tuple(data.get("allowed_namespaces", ()))})
