"""etcd and kube-apiserver alone, with the KubeRay CRDs: for tests of API semantics. No root, ready in seconds.

    with api_server(kuberay="1.6.0") as server:
        use(server.kubeconfig)

There are no nodes, no controllers and no operator here: objects are stored, validated and served, and nothing happens
to them. ServiceAccount admission is off, so that pods can be created without the controller that makes accounts.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed import build, controlplane
from testbed.client import ApiClient
from testbed.errors import TestbedError
from testbed.facts import Facts
from testbed.paths import Layout
from testbed.pki import Authority
from testbed.process import Processes, end, wait_until


@dataclass(frozen=True)
class ApiServer:
    """A running API server and what is needed to speak to it as its administrator."""

    url: str
    kubeconfig: Path
    kubectl: Path
    client: ApiClient
    processes: Processes

    def stop(self, name: str = "kube-apiserver") -> None:
        """Make an outage."""
        self.processes.stop([name])

    def restart(self, name: str = "kube-apiserver") -> None:
        """End the outage; returns when the API server is ready again."""
        self.processes.restart(name)
        controlplane.wait_ready(self.processes, self.client)


def quiet(_message: str) -> None:
    """For tests, where nobody reads the announcements."""


@contextmanager
def api_server(
    kuberay: str = "1.6.0", state: Path | None = None, say: Callable[[str], None] = quiet
) -> Iterator[ApiServer]:
    """An API server that lives as long as the block, and never longer than this process."""
    folder = state or Path(tempfile.mkdtemp(prefix="rayflight-api-"))
    layout = Layout.api_only(folder)
    try:
        yield start(layout, kuberay, say, die_with_parent=True)
    finally:
        stop(layout)


def start(layout: Layout, kuberay: str, say: Callable[[str], None], *, die_with_parent: bool = False) -> ApiServer:
    """Start etcd and the API server in `layout`, apply the CRDs, return when they are served."""
    binaries = build.ensure_kubernetes(layout.cache, say)
    crds = build.ensure_crds(kuberay, layout.cache)
    authority = Authority(layout.pki)
    processes = Processes(layout.state, layout.run, layout.logs, die_with_parent=die_with_parent)
    facts = Facts.load(layout.facts) or Facts.choose(kuberay)
    facts.require(kuberay)
    facts.save(layout.facts)
    address = controlplane.Address("127.0.0.1", facts.api_port)
    processes.start(controlplane.etcd(binaries, layout.state / "etcd", facts.etcd_port, facts.etcd_peer_port))
    processes.start(controlplane.apiserver(binaries, authority, address, facts.etcd_port))
    kubeconfig = authority.kubeconfig(layout.kubeconfig, address.url, "admin", controlplane.ADMIN)
    client = controlplane.admin_client(authority, address.url)
    controlplane.wait_ready(processes, client)
    apply_crds(binaries / "kubectl", kubeconfig, client, crds)
    return ApiServer(address.url, kubeconfig, binaries / "kubectl", client, processes)


def stop(layout: Layout) -> None:
    """End the processes of this state directory and remove it."""
    # Nothing here has to be shut down politely.
    end(Processes(layout.state, layout.run, layout.logs).marked(), grace=0.3)
    shutil.rmtree(layout.state, ignore_errors=True)


def apply_crds(kubectl: Path, kubeconfig: Path, api: ApiClient, crds: Path) -> None:
    """Create the KubeRay CRDs and role; wait until they are served. (Too large for client-side apply, hence create.)"""
    command = [str(kubectl), f"--kubeconfig={kubeconfig}", "create", "--validate=false", f"-f={crds}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 and "AlreadyExists" not in done.stderr:
        raise TestbedError(f"the KubeRay CRDs of {crds} were not accepted: {done.stderr.strip()[-800:]}")

    def served() -> bool:
        status, answer = api.request("GET", "/apis/ray.io/v1")
        return status == 200 and {"rayclusters", "rayjobs"} <= {r["name"] for r in answer["resources"]}

    if not wait_until(served, 20):
        raise TestbedError(f"{api.server} does not serve ray.io/v1 20 s after its CRDs were created")
