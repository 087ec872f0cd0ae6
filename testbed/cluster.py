"""The whole testbed: brings it up, says how it is, takes it down. The order of steps and nothing else.

`up` is a list of steps that each make sure of something, so it also repairs a testbed of which parts were killed; if
nothing of it lives any more it begins anew.
"""

import http.client
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from testbed import (
    api,
    build,
    controlplane,
    gpu,
    host,
    image,
    imagestore,
    kueue,
    kueue_objects,
    network,
    nodes,
    packages,
    process,
    services,
)
from testbed.client import ApiClient, Json
from testbed.errors import TestbedError, Unsupported
from testbed.facts import Facts
from testbed.paths import Layout
from testbed.pki import Authority
from testbed.process import Processes, end, wait_until

Say = Callable[[str], None]
_ADDRESS = controlplane.Address(network.API_ADDRESS, network.API_PORT)


@dataclass(frozen=True)
class Material:
    """What has to be built or imported before anything starts; all of it lies in the cache."""

    kubernetes: Path
    kuberay: Path
    crds: Path
    coredns: Path
    device_plugin: Path
    images: Path


def require_possible() -> None:
    """Say in one sentence why this machine cannot run the testbed."""
    if not sys.platform.startswith("linux"):
        raise Unsupported(f"the testbed runs containers of its own and needs Linux; this is {platform.system()}")
    if os.geteuid() != 0:
        raise Unsupported("the testbed makes network bridges and containers and needs root; `up --api-only` does not")
    if not host.has_cgroups():
        raise Unsupported("the testbed needs cgroups mounted below /sys/fs/cgroup, and there are none")


@dataclass(frozen=True)
class Queueing:
    """What `up` is told of Kueue: ``wanted`` None leaves it as it is (and repairs it)."""

    wanted: bool | None = None
    pods_ready: kueue_objects.PodsReady | None = None


def up(layout: Layout, kuberay: str, say: Say, queueing: Queueing | None = None) -> None:
    """Build what is missing, start what does not run, return when nodes, DNS and operator are ready."""
    require_possible()
    require_alone(layout)
    processes = _processes(layout)
    _require_same_version(layout, processes, kuberay)
    packages.ensure(say)
    material = prepare(layout.cache, kuberay, say)
    if layout.state.exists() and processes.pid("etcd") is None and processes.pid("kube-apiserver") is None:
        say("clearing away what an earlier testbed left")
        down(layout, say)
    started = time.monotonic()
    processes.wake()
    first = not layout.facts.exists()
    if first:
        network.require_free()
        _require_layerable(layout)
        host.remember(layout.host_before)
    facts = Facts.load(layout.facts) or Facts.choose(kuberay, network.API_PORT, material.images.name)
    facts.save(layout.facts)
    if facts.images != material.images.name:
        say("the images were made anew since the nodes started: `down` and `up` bring them in")
    network.set_up(len(nodes.NODES))
    authority = Authority(layout.pki)
    client = _start(layout, processes, material, facts, authority, say)
    _queue(queueing or Queueing(), layout, processes, material, authority, say)
    wait_ready(processes, client, say)
    say(f"{'started' if first else 'checked'} in {time.monotonic() - started:.1f} s")


def require_alone(layout: Layout) -> None:
    """Bridges, chains and cgroups have one name on a machine, so two testbeds would take each other's down."""
    for other in process.other_states(layout.state):
        raise TestbedError(f"another testbed runs on this machine, with RAYFLIGHT_TESTBED_STATE={other}")


def prepare(cache: Path, kuberay: str, say: Say) -> Material:
    """Everything that is built or imported; the images (network-bound) are made while Go compiles."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        tars: Future[tuple[Path, Path]] = pool.submit(
            lambda: (image.build_pause_image(cache, say), image.build_ray_image(cache, say))
        )
        kubernetes = build.ensure_kubernetes(cache, say)
        operator = build.ensure_kuberay(kuberay, cache, say)
        coredns = build.ensure(build.COREDNS, cache, say)
        device_plugin = build.ensure(build.DEVICE_PLUGIN, cache, say)
        images = imagestore.ensure(cache, tars.result(), say)
    crds = build.ensure_crds(kuberay, cache)
    return Material(kubernetes, operator, crds, coredns, device_plugin, images)


def wait_ready(processes: Processes, client: ApiClient, say: Say, seconds: float = 90) -> None:
    """Return when every node is Ready with its GPUs and the operator runs; name what is missing otherwise."""
    missing: list[str] = []

    def settled() -> bool:
        missing[:] = unready(client)
        dead = [name for name in processes.names() if processes.pid(name) is None]
        if dead:
            tail = processes.log_tail(dead[0])
            raise TestbedError(f"{dead[0]} died; the end of {processes.log(dead[0])}:\n{tail}")
        return not missing

    if not wait_until(settled, seconds, every=0.2):
        raise TestbedError(f"not ready after {seconds:.0f} s: {'; '.join(missing)}; logs: `python -m testbed logs`")
    say(f"{len(nodes.NODES)} nodes Ready, {len(gpu.NODES) * gpu.PER_NODE} simulated GPUs allocatable, operator running")


def unready(client: ApiClient) -> list[str]:
    """What a usable testbed still lacks, in words."""
    try:
        present = {item["metadata"]["name"]: item for item in client.get("/api/v1/nodes")["items"]}
    except OSError as error:
        return [f"the API server does not answer ({error})"]
    missing = [f"node {node.name} {why}" for node in nodes.NODES if (why := node_lacks(present.get(node.name), node))]
    if not _operator_is_ready():
        missing.append("the KubeRay operator is not ready")
    if client.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] != 200:
        missing.append("the default service account is not there")
    return missing


def down(layout: Layout, say: Say) -> None:
    """Stop everything, undo every change of the host, check that nothing is left, and say so."""
    begun = time.monotonic()
    require_alone(layout)
    end(_processes(layout).marked(), grace=0)  # containers die with their cgroups; there is nothing to save
    restored = host.restore(layout.host_before)
    # A process that was being started just now can have escaped the first look.
    end(_processes(layout).marked(), grace=0)
    if layout.logs.is_dir():
        last = layout.cache / "last-logs"
        shutil.rmtree(last, ignore_errors=True)
        shutil.copytree(layout.logs, last)
    for folder in (layout.run, layout.state):
        host.remove_folder(folder)
    left = host.leftovers((layout.run, layout.state))
    if left:
        raise TestbedError(f"down is not complete, still there: {', '.join(left)}; run `python -m testbed down` again")
    sysctls = "are as before" if restored else f"were not set back: {layout.host_before} was gone"
    say(
        f"down in {time.monotonic() - begun:.1f} s: no process, mount, link, iptables chain, cgroup or folder of the "
        f"testbed is left; sysctls {sysctls}"
    )


def admin(layout: Layout) -> ApiClient:
    """A client with all rights, for a testbed that is up."""
    return controlplane.admin_client(Authority(layout.pki), _ADDRESS.url)


def _processes(layout: Layout) -> Processes:
    return Processes(layout.state, layout.run, layout.logs)


def _require_same_version(layout: Layout, processes: Processes, kuberay: str) -> None:
    facts = Facts.load(layout.facts)
    if facts is not None and processes.pid("kube-apiserver") is not None:
        facts.require(kuberay)


def _require_layerable(layout: Layout) -> None:
    """Container file systems are overlays, and the kernel does not stack those on each other."""
    folder = next(parent for parent in (layout.state, *layout.state.parents) if parent.exists())
    if host.file_system(folder) == "overlay":
        raise TestbedError(
            f"{folder} lies on an overlay file system (a container's?), on which no container can be layered; "
            "set RAYFLIGHT_TESTBED_STATE to a folder on a real disk or a volume"
        )


def _start(
    layout: Layout, processes: Processes, material: Material, facts: Facts, authority: Authority, say: Say
) -> ApiClient:
    binaries = material.kubernetes
    processes.start(controlplane.etcd(binaries, layout.state / "etcd", facts.etcd_port, facts.etcd_peer_port))
    processes.start(controlplane.apiserver(binaries, authority, _ADDRESS, facts.etcd_port, full=True))
    client = controlplane.admin_client(authority, _ADDRESS.url)
    kubeconfig = authority.kubeconfig(layout.kubeconfig, _ADDRESS.url, "admin", controlplane.ADMIN)
    for node in nodes.NODES:  # while the API server starts
        _start_runtime(node, layout, processes, material, authority)
    controlplane.wait_ready(processes, client)
    say("API server ready")
    processes.start(services.empty_registry())
    credentials = services.Credentials(authority, layout, _ADDRESS)
    processes.start(services.controller_manager(binaries, layout, authority, credentials))
    for node in nodes.NODES:
        _start_kubelet(node, layout, processes, material)
    processes.start(services.scheduler(binaries, credentials))
    processes.start(services.proxy(binaries, credentials))
    api.apply_crds(binaries / "kubectl", kubeconfig, client, material.crds)
    for path, item in services.objects(layout):
        client.create(path, item)
    processes.start(services.volume_keeper(layout, _ADDRESS))
    processes.start(services.coredns(material.coredns / "coredns", layout, credentials))
    processes.start(services.operator(material.kuberay / "kuberay-operator", credentials))
    return client


def _queue(
    queueing: Queueing, layout: Layout, processes: Processes, material: Material, authority: Authority, say: Say
) -> None:
    """Add Kueue, repair it, or take it out; nothing of it is built unless it is wanted."""
    client = controlplane.admin_client(authority, _ADDRESS.url)
    kubectl = material.kubernetes / "kubectl"
    own = kueue.Kueue(layout, processes, authority, _ADDRESS, kubectl, client)
    if queueing.wanted:
        own.add(kueue.prepare(layout.cache, say), queueing.pods_ready, say)
    elif kueue.is_on(processes):
        if queueing.wanted is None:
            own.add(kueue.prepare(layout.cache, say), own.pods_ready(), say)
        else:
            own.remove(say)


def _start_runtime(
    node: nodes.Node, layout: Layout, processes: Processes, material: Material, authority: Authority
) -> None:
    nodes.prepare(node, layout, authority)
    host.make_cgroup(node.name)
    imagestore.lend(material.images, layout.node(node.name) / "containerd")
    if processes.pid(nodes.holder_of(node.name)) is None:
        nodes.namespace_ready(node, layout).unlink(missing_ok=True)
    processes.start(nodes.namespace(node, layout))
    if not wait_until(nodes.namespace_ready(node, layout).exists, 10, every=0.02):
        tail = processes.log_tail(nodes.holder_of(node.name))
        raise TestbedError(f"the mount namespace of node {node.name} could not be made: {tail}")
    processes.start(nodes.containerd(node, layout))


def _start_kubelet(node: nodes.Node, layout: Layout, processes: Processes, material: Material) -> None:
    if not wait_until(layout.containerd_socket(node.name).exists, 20):
        tail = processes.log_tail(f"containerd-{node.name}")
        raise TestbedError(f"containerd of node {node.name} opened no socket within 20 s:\n{tail}")
    processes.start(nodes.kubelet(node, layout, material.kubernetes))
    if node.gpus:  # at once: a kubelet tells of later devices only with its next status, up to 10 s later
        processes.start(gpu.device_plugin(material.device_plugin / "deviceplugin", layout, node.name))


def node_lacks(item: Json | None, node: nodes.Node) -> str:
    """What keeps the Kubernetes node from being used, in words; empty when nothing does."""
    if item is None:
        return "has not registered"
    ready = next((c for c in item["status"].get("conditions", ()) if c["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        return f"is not Ready ({ready['message'] if ready else 'no condition yet'})"
    offered = int(item["status"].get("allocatable", {}).get(gpu.RESOURCE, 0))
    return f"offers {offered} of {node.gpus} GPUs" if offered < node.gpus else ""


def _operator_is_ready() -> bool:
    connection = http.client.HTTPConnection(network.API_ADDRESS, services.OPERATOR_HEALTH_PORT, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
