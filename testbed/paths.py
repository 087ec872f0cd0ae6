"""Where the testbed keeps things. Only names: this module creates and reads nothing."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "go"


def cache_dir() -> Path:
    """Built binaries and images: survive `down`, removed by `purge`."""
    return Path(os.environ.get("RAYFLIGHT_TESTBED_CACHE") or Path.home() / ".cache" / "rayflight-testbed")


@dataclass(frozen=True)
class Layout:
    """The directories of one testbed: `state` is its identity (two testbeds never share one)."""

    state: Path
    run: Path
    cache: Path

    @classmethod
    def full(cls) -> "Layout":
        """The whole testbed: one per machine."""
        state = Path(os.environ.get("RAYFLIGHT_TESTBED_STATE") or "/var/lib/rayflight-testbed")
        run = Path(os.environ.get("RAYFLIGHT_TESTBED_RUN") or "/run/rayflight-testbed")
        return cls(state=state.absolute(), run=run.absolute(), cache=cache_dir().absolute())

    @classmethod
    def api_only(cls, state: Path | None = None) -> "Layout":
        """etcd and the API server alone: as many as there are state directories, no root needed."""
        cache = cache_dir().absolute()
        state = (state or cache / "api-only").absolute()
        return cls(state=state, run=state / "run", cache=cache)

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def facts(self) -> Path:
        """What `up` decided (mode, versions, ports); written before anything on the host is touched."""
        return self.state / "testbed.json"

    @property
    def host_before(self) -> Path:
        """How the host was before `up`; `down` restores from it. Beside the run files: a reboot undoes both."""
        return self.run / "host-before.json"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def volumes(self) -> Path:
        return self.state / "volumes"

    @property
    def lock(self) -> Path:
        """`up` and `down` of one testbed exclude each other; in the cache, so that `down` leaves no file behind."""
        return self.cache / "locks" / (hashlib.sha256(str(self.state).encode()).hexdigest()[:12] + ".lock")

    def node(self, name: str) -> Path:
        return self.state / "nodes" / name

    def kubelet_root(self, node: str) -> Path:
        return self.node(node) / "kubelet"

    def gpu_state(self, node: str) -> Path:
        return self.state / "gpu" / node

    def containerd_socket(self, node: str) -> Path:
        return self.run / node / "containerd.sock"
