"""What an `up` decided, so that the next command finds the same testbed again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.controlplane import free_port
from testbed.errors import TestbedError


@dataclass(frozen=True)
class Facts:
    """Versions and ports of one testbed."""

    kuberay: str
    etcd_port: int
    etcd_peer_port: int
    api_port: int
    images: str = ""  # the store that the nodes were started with

    @classmethod
    def choose(cls, kuberay: str, api_port: int | None = None, images: str = "") -> "Facts":
        """Free loopback ports; the API port too unless it is fixed."""
        return cls(kuberay, free_port(), free_port(), api_port or free_port(), images)

    @classmethod
    def load(cls, path: Path) -> "Facts | None":
        """None when there is no testbed (a file cut off by a kill counts as none: it is written before all else)."""
        try:
            return cls(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError):
            return None

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    def require(self, kuberay: str) -> None:
        """Two KubeRay versions do not share one API server: their CRDs differ."""
        if self.kuberay != kuberay:
            raise TestbedError(
                f"the testbed runs KubeRay {self.kuberay}, not {kuberay}: `python -m testbed down` first"
            )
