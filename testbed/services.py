"""The cluster's own services as processes of the host: controllers, scheduler, kube-proxy, CoreDNS, KubeRay operator.

Only command lines and the few objects they need. Each speaks to the API server with a certificate and the rights of
its own, as in a real cluster.
"""

import sys
from pathlib import Path

from testbed import network, registry, volumes
from testbed.client import Json
from testbed.controlplane import Address
from testbed.network import API_ADDRESS
from testbed.paths import Layout
from testbed.pki import Authority
from testbed.process import Daemon

OPERATOR = "kuberay-operator"
OPERATOR_NAMESPACE = "kuberay-system"
OPERATOR_HEALTH_PORT = 8082


class Credentials:
    """Makes one kubeconfig per component."""

    def __init__(self, authority: Authority, layout: Layout, address: Address) -> None:
        self._authority = authority
        self._folder = layout.state / "kubeconfigs"
        self._server = address.url

    def of(self, component: str, subject: str) -> Path:
        return self._authority.kubeconfig(self._folder / component, self._server, component, subject)


def controller_manager(binaries: Path, layout: Layout, authority: Authority, credentials: Credentials) -> Daemon:
    kubeconfig = credentials.of("kube-controller-manager", "/CN=system:kube-controller-manager")
    argv = (
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--root-ca-file={authority.certificate}",
        f"--service-account-private-key-file={authority.service_account_key}",
        f"--flex-volume-plugin-dir={layout.state / 'volume-plugins'}",  # its default is a folder of the host
        "--use-service-account-credentials=true",
        f"--bind-address={API_ADDRESS}",
        "--leader-elect=false",
        "--profiling=false",
    )
    return Daemon("kube-controller-manager", argv)


def scheduler(binaries: Path, credentials: Credentials) -> Daemon:
    kubeconfig = credentials.of("kube-scheduler", "/CN=system:kube-scheduler")
    argv = (
        str(binaries / "kube-scheduler"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={API_ADDRESS}",
        "--leader-elect=false",
        "--profiling=false",
    )
    return Daemon("kube-scheduler", argv)


def proxy(binaries: Path, credentials: Credentials) -> Daemon:
    """One kube-proxy serves all nodes: they share the host's network namespace, so there is one set of iptables."""
    kubeconfig = credentials.of("kube-proxy", "/CN=system:kube-proxy")
    argv = (
        str(binaries / "kube-proxy"),
        f"--kubeconfig={kubeconfig}",
        "--hostname-override=cpu-1",
        "--proxy-mode=iptables",
        f"--cluster-cidr={network.POD_RANGE}",
        f"--bind-address={API_ADDRESS}",
        f"--healthz-bind-address={API_ADDRESS}:10256",
        f"--metrics-bind-address={API_ADDRESS}:10249",
        f"--nodeport-addresses={network.HOST_RANGE}",
        "--iptables-localhost-nodeports=false",  # would set route_localnet on the host
        "--conntrack-max-per-core=0",  # leave the host's conntrack limits alone
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    )
    return Daemon("kube-proxy", argv)


def coredns(program: Path, layout: Layout, credentials: Credentials) -> Daemon:
    kubeconfig = credentials.of("coredns", "/CN=coredns")
    corefile = layout.state / "Corefile"
    corefile.write_text(
        f"""{network.CLUSTER_DOMAIN}:53 in-addr.arpa:53 {{
    bind {network.DNS_ADDRESS}
    errors
    cache 5 {{
        disable denial
    }}
    kubernetes {network.CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig} testbed
        ttl 2
    }}
}}
"""
    )
    return Daemon("coredns", (str(program), f"-conf={corefile}"))


def operator(program: Path, credentials: Credentials) -> Daemon:
    """The KubeRay operator. It reaches dashboards through the API server, because a host process does not resolve
    cluster names."""
    kubeconfig = credentials.of(OPERATOR, f"/CN={OPERATOR}")
    argv = (
        str(program),
        f"-kubeconfig={kubeconfig}",
        "-use-kubernetes-proxy",
        "-enable-leader-election=false",
        f"-metrics-addr={API_ADDRESS}:8080",
        f"-health-probe-bind-address={API_ADDRESS}:{OPERATOR_HEALTH_PORT}",
    )
    return Daemon(OPERATOR, argv, env={"POD_NAMESPACE": OPERATOR_NAMESPACE})


def empty_registry() -> Daemon:
    """Where the nodes look for images that are not there: see registry.py."""
    return _python("registry", "testbed.registry", API_ADDRESS, str(registry.PORT))


def volume_keeper(layout: Layout, address: Address) -> Daemon:
    """Offers released shared volumes again: see volumes.py."""
    return _python("volumes", "testbed.volumes", address.url, str(layout.pki), str(layout.volumes))


def objects(layout: Layout) -> list[tuple[str, Json]]:
    """What has to exist in the API: (collection path, object). Nothing of the product."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    found = [
        ("/api/v1/namespaces", {"metadata": {"name": OPERATOR_NAMESPACE}}),
        (rbac, _bind("rayflight-testbed:coredns", "testbed:coredns", "coredns")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", _coredns_role()),
        (rbac, _bind(f"rayflight-testbed:{OPERATOR}", OPERATOR, OPERATOR)),
    ]
    return found + volumes.objects(layout.volumes)


def _python(name: str, module: str, *arguments: str) -> Daemon:
    source = str(Path(__file__).resolve().parent.parent)
    argv = (sys.executable, "-m", module, *arguments)
    return Daemon(name, argv, env={"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"})


def _bind(name: str, role: str, user: str) -> Json:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def _coredns_role() -> Json:
    verbs = ["get", "list", "watch"]
    return {
        "metadata": {"name": "testbed:coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces", "nodes"], "verbs": verbs},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
        ],
    }
