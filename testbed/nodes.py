"""The three nodes: for each a mount namespace with its own containerd, kubelet and CNI network.

A node's mounts (container root file systems, volumes, network namespaces) exist only in that namespace, so they are
gone when its processes are, however those ended. Only configuration and command lines are decided here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed import gpu, host, image, network, packages, registry
from testbed.paths import Layout
from testbed.pki import Authority
from testbed.process import Daemon

KUBELET_PORT = 10250


@dataclass(frozen=True)
class Node:
    """One Kubernetes node; `index` gives it its address and its pod subnet."""

    name: str
    index: int
    gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return network.node_address(self.index)


NODES = (Node("cpu-1", 1), *(Node(name, 2 + i, gpu.PER_NODE, gpu.LABELS) for i, name in enumerate(gpu.NODES)))
GPU_NODES = tuple(node for node in NODES if node.gpus)


def prepare(node: Node, layout: Layout, authority: Authority) -> None:
    """Write the node's configuration files and make its folders and cgroup."""
    root = layout.node(node.name)
    for folder in ("cni", "kubelet/device-plugins", "pod-logs", "volume-plugins", *_private_folders().values()):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (layout.run / node.name).mkdir(parents=True, exist_ok=True)
    _write(root / "cni" / "10-testbed.conflist", json.dumps(_cni(node, layout), indent=1))
    _write(root / "containerd.toml", _containerd_config(node, layout))
    (root / "registries" / "_default").mkdir(parents=True, exist_ok=True)
    url = f"http://{network.API_ADDRESS}:{registry.PORT}"
    _write(root / "registries" / "_default" / "hosts.toml", f'server = "{url}"\n[host."{url}"]\n')
    # Pods ask CoreDNS alone: the answers do not depend on the resolver of the host.
    _write(root / "resolv.conf", f"nameserver {network.DNS_ADDRESS}\n")
    _write(root / "kubelet.json", json.dumps(_kubelet_config(node, layout, authority), indent=1))
    subject = f"/O=system:nodes/CN=system:node:{node.name}"
    server = f"https://{network.API_ADDRESS}:{network.API_PORT}"
    authority.kubeconfig(root / "kubelet.kubeconfig", server, f"node-{node.name}", subject)
    for point in host.MOUNT_POINTS:
        Path(point).mkdir(parents=True, exist_ok=True)


def namespace(node: Node, layout: Layout) -> Daemon:
    """The process that makes and holds the mount namespace; it leaves a file when the node's folders are in place."""
    root = layout.node(node.name)
    # When only this process was killed it comes back into the living namespace, where the folders are in place.
    binds = "; ".join(
        f"mountpoint -q {point} || mount --bind {root / own} {point}" for point, own in _private_folders().items()
    )
    script = f"set -e; {binds}; touch {namespace_ready(node, layout)}; exec sleep infinity"
    return Daemon(holder_of(node.name), ("sh", "-c", script), node=node.name)


def holder_of(node: str) -> str:
    return f"node-{node}"


def namespace_ready(node: Node, layout: Layout) -> Path:
    return layout.run / node.name / "mounted"


def containerd(node: Node, layout: Layout) -> Daemon:
    argv = ("containerd", f"--config={layout.node(node.name) / 'containerd.toml'}", "--log-level=warn")
    return Daemon(f"containerd-{node.name}", argv, node=node.name)


def kubelet(node: Node, layout: Layout, binaries: Path) -> Daemon:
    root = layout.node(node.name)
    labels = ",".join(f"{key}={value}" for key, value in node.labels.items())
    argv = (
        str(binaries / "kubelet"),
        f"--config={root / 'kubelet.json'}",
        f"--kubeconfig={root / 'kubelet.kubeconfig'}",
        f"--root-dir={layout.kubelet_root(node.name)}",
        f"--cert-dir={root / 'kubelet-pki'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        *([f"--node-labels={labels}"] if labels else []),
    )
    return Daemon(f"kubelet-{node.name}", argv, node=node.name)


def _private_folders() -> dict[str, str]:
    return {point: "private" + point.replace("/", "-") for point in host.MOUNT_POINTS} | {
        "/var/lib/kubelet": "kubelet"  # so that device plugins find the classic socket of this node's kubelet
    }


def _cni(node: Node, layout: Layout) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": f"{host.LINK_PREFIX}-{node.name}",
        "isGateway": True,
        "hairpinMode": True,
        # Masquerading is one rule of the testbed's chain: pods of two nodes see each other's own addresses.
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": network.pod_subnet(node.index)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(layout.run / node.name / "ipam"),
        },
    }
    return {
        "cniVersion": "0.4.0",
        "name": f"testbed-{node.name}",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def _containerd_config(node: Node, layout: Layout) -> str:
    root, run = layout.node(node.name), layout.run / node.name
    return f"""version = 2
root = "{root / "containerd"}"
state = "{run / "containerd"}"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]

[grpc]
address = "{layout.containerd_socket(node.name)}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image.PAUSE_IMAGE}"
restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE no sandbox starts otherwise
netns_mounts_under_state_dir = true
stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{packages.CNI_PLUGINS}"
conf_dir = "{root / "cni"}"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{root / "registries"}"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _kubelet_config(node: Node, layout: Layout, authority: Authority) -> dict[str, object]:
    root = layout.node(node.name)
    certificate, key = authority.issue(f"kubelet-{node.name}", f"/CN=kubelet-{node.name}", (node.address, node.name))
    key_and_value, effect = gpu.TAINT.split(":")
    taint = dict(zip(("key", "value", "effect"), (*key_and_value.split("="), effect), strict=True))
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzBindAddress": node.address,
        "healthzPort": 10248,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "registerWithTaints": [taint] if node.gpus else [],
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket(node.name)}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{host.CGROUP}/{node.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [network.DNS_ADDRESS],
        "clusterDomain": network.CLUSTER_DOMAIN,
        "resolvConf": str(root / "resolv.conf"),
        "podLogsDir": str(root / "pod-logs"),
        "volumePluginDir": str(root / "volume-plugins"),
        "serializeImagePulls": False,
        # The images are local: neither a full disk nor a quiet hour may make the kubelet delete them.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def _write(path: Path, text: str) -> None:
    path.write_text(text)
