"""etcd and kube-apiserver: how they are started and when they are ready. The same for both kinds of testbed."""

import socket
from dataclasses import dataclass
from pathlib import Path

from testbed.client import ApiClient
from testbed.errors import TestbedError
from testbed.pki import Authority
from testbed.process import Daemon, Processes, wait_until

SERVICE_RANGE = "10.97.0.0/16"
ADMIN = "/O=system:masters/CN=testbed-admin"
_ALONE = ("--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none")


@dataclass(frozen=True)
class Address:
    """Where the API server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def etcd(binaries: Path, data: Path, port: int, peer_port: int) -> Daemon:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return Daemon(
        "etcd",
        (
            str(binaries / "etcd"),
            f"--data-dir={data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # nothing here has to outlive the machine
            "--log-level=warn",
        ),
    )


def apiserver(
    binaries: Path, authority: Authority, address: Address, etcd_port: int, *extra: str, full: bool = False
) -> Daemon:
    """The API server; `full` is with nodes and controllers, else alone for tests of API semantics."""
    hosts = (address.host, "127.0.0.1", "10.97.0.1", "localhost", "kubernetes", "kubernetes.default.svc")
    certificate, key = authority.issue("apiserver", "/CN=kube-apiserver", hosts)
    kubelet_certificate, kubelet_key = authority.issue("apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet")
    alone = _aggregation(authority) if full else _ALONE
    return Daemon(
        "kube-apiserver",
        (
            str(binaries / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--bind-address={address.host}",
            f"--advertise-address={address.host}",
            f"--secure-port={address.port}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={authority.certificate}",
            f"--requestheader-client-ca-file={authority.certificate}",
            "--requestheader-allowed-names=front-proxy",
            f"--kubelet-certificate-authority={authority.certificate}",
            f"--kubelet-client-certificate={kubelet_certificate}",
            f"--kubelet-client-key={kubelet_key}",
            f"--service-account-key-file={authority.service_account_key}",
            f"--service-account-signing-key-file={authority.service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--kubelet-preferred-address-types=InternalIP",  # node names are in nobody's DNS
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--profiling=false",
            *alone,
            *extra,
        ),
    )


def _aggregation(authority: Authority) -> tuple[str, ...]:
    """How the API server tells a server behind it (Kueue's visibility) on whose behalf it asks."""
    certificate, key = authority.issue("front-proxy", "/CN=front-proxy")
    return (
        f"--proxy-client-cert-file={certificate}",
        f"--proxy-client-key-file={key}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    )


def admin_client(authority: Authority, url: str) -> ApiClient:
    certificate, key = authority.issue("admin", ADMIN)
    return ApiClient(url, authority.certificate, certificate, key)


def wait_ready(processes: Processes, api: ApiClient, seconds: float = 60) -> None:
    """Return when the API server says ready; fail at once when it or etcd has died."""

    def settled() -> bool:
        return api.is_ready() or any(processes.pid(name) is None for name in ("etcd", "kube-apiserver"))

    if wait_until(settled, seconds) and api.is_ready():
        return
    dead = [name for name in ("etcd", "kube-apiserver") if processes.pid(name) is None]
    name = dead[0] if dead else "kube-apiserver"
    what = "died at its start" if dead else f"was not ready within {seconds:.0f} s"
    raise TestbedError(f"{name} {what}; the end of {processes.log(name)}:\n{processes.log_tail(name)}")
