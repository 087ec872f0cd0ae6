"""Faults of a running testbed, each with its undo: what breaks in real clusters, made on purpose.

Standard library only. Signals only processes of the testbed's own registry and of its pods; changes objects only where
a verb says so. Every verb returns what it did; a `Done` is a context manager, so that no test forgets the undo:

    faults = Faults(Layout.full())
    with faults.stop_kubelet("gpu-1"):
        ...                                   # the node becomes NotReady, its pods run on
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from testbed import cluster, controlplane, faults_pods, gpu, nodes, services
from testbed.client import ApiClient, Json
from testbed.errors import TestbedError
from testbed.faults_proxy import FlakyProxy, flaky_proxy
from testbed.paths import Layout
from testbed.pki import Authority
from testbed.process import Processes, wait_until

API_SERVER = "kube-apiserver"
QUOTA = "rayflight-fault"
# Taints that belong to a healthy testbed or to Kubernetes itself: `clear` leaves them.
_KEPT_TAINTS = (gpu.TAINT.split("=")[0], "node.kubernetes.io/")


@dataclass(frozen=True)
class Done:
    """What a fault did, the command that undoes it, and the undo itself."""

    what: str
    undo: str | None = None
    revert: Callable[[], object] | None = field(default=None, repr=False, compare=False)

    def __enter__(self) -> "Done":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.revert is not None:
            self.revert()


class Faults:
    """The verbs, for one testbed that is up."""

    def __init__(self, layout: Layout) -> None:
        if not layout.facts.exists():
            raise TestbedError("the testbed is not up, so nothing of it can break; run `python -m testbed up` first")
        self.layout = layout
        self._processes = Processes(layout.state, layout.run, layout.logs)

    # Components ------------------------------------------------------------------------------------------------------

    def stop(self, component: str) -> Done:
        """Kill a component. It has no time to say goodbye: that is how machines and processes are lost."""
        self._require(component)
        self._processes.stop([component], grace=0)
        return Done(f"{component} stopped", f"fault component start {component}", lambda: self.start(component))

    def start(self, component: str) -> Done:
        """Start a component again as it was started before; waits for the API server, as everything else needs it."""
        pid = self._processes.restart(component)
        if component == API_SERVER:
            controlplane.wait_ready(self._processes, self._api)
        return Done(f"{component} runs, pid {pid}", f"fault component stop {component}", lambda: self.stop(component))

    def pause(self, component: str) -> Done:
        """Freeze a component: its connections stay open and nothing answers, as on a machine that hangs."""
        self._processes.signal(component, signal.SIGSTOP)
        return Done(f"{component} paused", f"fault component resume {component}", lambda: self.resume(component))

    def resume(self, component: str) -> Done:
        """Undo `pause`."""
        self._processes.signal(component, signal.SIGCONT)
        return Done(f"{component} goes on", f"fault component pause {component}", lambda: self.pause(component))

    def stop_kubelet(self, node: str) -> Done:
        """The node becomes NotReady after its grace period (about 50 s); its containers run on."""
        return self.stop(kubelet(node))

    def start_kubelet(self, node: str) -> Done:
        """Undo `stop_kubelet` and `lose_node`."""
        return self.start(kubelet(node))

    def lose_node(self, node: str) -> Done:
        """A machine is gone: its kubelet and every process of its pods die at once. The undo is a reboot."""
        self.stop(kubelet(node))
        ended = faults_pods.kill_node(node)
        what = f"{node} lost: kubelet and {ended} processes of its pods killed"
        return Done(what, f"fault kubelet start {node}", lambda: self.start_kubelet(node))

    def stop_api_server(self) -> Done:
        """Nothing can be asked or changed; pods run on."""
        return self.stop(API_SERVER)

    def start_api_server(self) -> Done:
        """Undo `stop_api_server`; returns when it is ready."""
        return self.start(API_SERVER)

    def pause_api_server(self) -> Done:
        """Requests are taken and never answered."""
        return self.pause(API_SERVER)

    def resume_api_server(self) -> Done:
        """Undo `pause_api_server`."""
        return self.resume(API_SERVER)

    def stop_operator(self) -> Done:
        """No RayCluster is acted on any more."""
        return self.stop(services.OPERATOR)

    def start_operator(self) -> Done:
        """Undo `stop_operator`."""
        return self.start(services.OPERATOR)

    def flaky_proxy(self, *, port: int = 0, kubeconfig: Path | None = None) -> AbstractContextManager[FlakyProxy]:
        """An API server that refuses, drops and hangs, beside the real one: see `faults_proxy`."""
        path = kubeconfig or self.layout.state / "flaky-kubeconfig"
        return flaky_proxy(Authority(self.layout.pki), self._api.server, path, port=port)

    # Nodes and their GPUs --------------------------------------------------------------------------------------------

    def cordon(self, node: str) -> Done:
        """Nothing new is scheduled there."""
        self._patch_node(node, {"unschedulable": True})
        return Done(f"{node} cordoned", f"fault uncordon {node}", lambda: self.uncordon(node))

    def uncordon(self, node: str) -> Done:
        """Undo `cordon`."""
        self._patch_node(node, {"unschedulable": None})
        return Done(f"{node} can be scheduled to", f"fault cordon {node}", lambda: self.cordon(node))

    def taint(self, node: str, taint: str) -> Done:
        """Add KEY[=VALUE]:EFFECT; the effect NoExecute also drives pods away."""
        wanted = parse_taint(taint)
        self._change_taints(node, lambda old: [*(t for t in old if not _same_taint(t, wanted)), wanted])
        return Done(f"{node} tainted {taint}", f"fault untaint {node} {taint}", lambda: self.untaint(node, taint))

    def untaint(self, node: str, taint: str) -> Done:
        """Undo `taint`."""
        unwanted = parse_taint(taint)
        self._change_taints(node, lambda old: [t for t in old if not _same_taint(t, unwanted)])
        return Done(f"{node} no longer tainted {taint}", f"fault taint {node} {taint}", lambda: self.taint(node, taint))

    def make_gpu_unhealthy(self, node: str, index: int) -> Done:
        """One GPU is sick: allocatable falls by one; the pod that holds it sees it in its status and in nvidia-smi."""
        uuid = gpu.make_unhealthy(self.layout, node, index)
        undo = f"fault gpu-healthy {node} {index}"
        return Done(f"GPU {index} of {node} ({uuid}) is unhealthy", undo, lambda: self.make_gpu_healthy(node, index))

    def make_gpu_healthy(self, node: str, index: int) -> Done:
        """Undo `make_gpu_unhealthy`."""
        uuid = gpu.make_healthy(self.layout, node, index)
        undo = f"fault gpu-unhealthy {node} {index}"
        return Done(f"GPU {index} of {node} ({uuid}) is healthy", undo, lambda: self.make_gpu_unhealthy(node, index))

    def make_gpu_tell(self, node: str, index: int, numbers: Mapping[str, str]) -> Done:
        """`nvidia-smi` tells something else of one GPU (another uuid, another name); Kubernetes notices nothing."""
        uuid = gpu.tell(self.layout, node, index, numbers)
        told = ", ".join(f"{name}={value}" for name, value in numbers.items())
        what = f"GPU {index} of {node} ({uuid}) tells {told}"
        return Done(what, f"fault gpu-truth {node} {index}", lambda: self.make_gpu_truthful(node, index))

    def make_gpu_truthful(self, node: str, index: int) -> Done:
        """Undo `make_gpu_tell`."""
        gpu.tell_truth(self.layout, node, index)
        return Done(f"GPU {index} of {node} tells the truth")

    def stop_device_plugin(self, node: str) -> Done:
        """The plugin vanishes: no GPU of the node is allocatable; capacity stays for minutes."""
        return self.stop(gpu.daemon_name(_gpu_node(node)))

    def start_device_plugin(self, node: str) -> Done:
        """Undo `stop_device_plugin`."""
        return self.start(gpu.daemon_name(_gpu_node(node)))

    # Namespaces and pods ---------------------------------------------------------------------------------------------

    def set_quota(self, namespace: str, hard: Mapping[str, str]) -> Done:
        """Limit a namespace, for example {"requests.nvidia.com/gpu": "1"}; returns when the limit is enforced."""
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        body: Json = {"metadata": {"name": QUOTA}, "spec": {"hard": dict(hard)}}
        status, answer = self._api.request("POST", path, body)
        if status == 409:
            self._api.request("DELETE", f"{path}/{QUOTA}")
            status, answer = self._api.request("POST", path, body)
        if status != 201:
            raise TestbedError(f"no quota in namespace {namespace}: {answer.get('message', answer)}")

        # Admission reads the limits from the status, which a controller fills in: before that nothing is refused.
        def enforced() -> bool:
            return bool(self._api.get(f"{path}/{QUOTA}").get("status", {}).get("hard"))

        if not wait_until(enforced, 20):
            raise TestbedError(
                f"the quota of {namespace} is not enforced after 20 s; does kube-controller-manager run?"
            )
        limits = ", ".join(f"{name}={value}" for name, value in hard.items())
        return Done(
            f"{namespace} limited to {limits}", f"fault unquota {namespace}", lambda: self.drop_quota(namespace)
        )

    def drop_quota(self, namespace: str) -> Done:
        """Undo `set_quota`."""
        self._api.delete(f"/api/v1/namespaces/{namespace}/resourcequotas/{QUOTA}")
        return Done(f"{namespace} has no quota of the testbed")

    def signal_in_pod(
        self, namespace: str, pod: str, pattern: str, *, number: signal.Signals = signal.SIGKILL, container: str = ""
    ) -> Done:
        """Send a signal to every process of a pod whose command line matches the regular expression, from the host.

        SIGKILL is what the out-of-memory killer sends, SIGSTOP makes a rank that hangs (its undo is SIGCONT).
        """
        found = faults_pods.matching(self._pod(namespace, pod), pattern, container)
        faults_pods.send(found, number)
        what = f"{number.name} to {len(found)} processes of {namespace}/{pod}: {'; '.join(p.shown() for p in found)}"
        if number is not signal.SIGSTOP:
            return Done(what)
        undo = f"fault signal {namespace} {pod} '{pattern}' --signal CONT"
        return Done(what, undo, lambda: faults_pods.send(found, signal.SIGCONT))

    def delete_pod(self, namespace: str, pod: str, *, grace: int | None = None) -> Done:
        """Delete a pod as a drain or a node autoscaler does; whoever owns it makes another. 0 does not wait for it."""
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        status, answer = self._api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}", body)
        if status not in (200, 202):
            raise TestbedError(f"pod {namespace}/{pod} not deleted: {answer.get('message', answer)}")
        given = "its own grace" if grace is None else f"{grace} s of grace"
        return Done(f"pod {namespace}/{pod} deleted with {given}")

    # All at once -----------------------------------------------------------------------------------------------------

    def clear(self) -> Iterator[Done]:
        """Undo every fault that can be undone; each step says what it found."""
        for name in self._processes.names():
            if self._processes.pid(name) is None:
                yield self.start(name)
            else:
                self._processes.signal(name, signal.SIGCONT)
        for node in gpu.NODES:
            for index in range(gpu.PER_NODE):
                if not gpu.is_healthy(self.layout, node, index):
                    yield self.make_gpu_healthy(node, index)
                if not gpu.is_truthful(self.layout, node, index):
                    yield self.make_gpu_truthful(node, index)
        for item in self._api.get("/api/v1/nodes")["items"]:
            yield from self._clear_node(item)
        for item in self._api.get("/api/v1/resourcequotas")["items"]:
            if item["metadata"]["name"] == QUOTA:
                yield self.drop_quota(item["metadata"]["namespace"])

    def _clear_node(self, item: Json) -> Iterator[Done]:
        name = item["metadata"]["name"]
        if item["spec"].get("unschedulable"):
            yield self.uncordon(name)
        for taint in item["spec"].get("taints", ()):
            if not taint["key"].startswith(_KEPT_TAINTS):
                yield self.untaint(name, f"{taint['key']}={taint.get('value', '')}:{taint['effect']}")

    @property
    def _api(self) -> ApiClient:
        return cluster.admin(self.layout)

    def _require(self, component: str) -> None:
        if component not in self._processes.names():
            known = ", ".join(self._processes.names())
            raise TestbedError(f"the testbed has no component {component!r}; it has: {known}")

    def _pod(self, namespace: str, pod: str) -> Json:
        return self._api.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")

    def _change_taints(self, node: str, change: Callable[[list[Json]], list[Json]]) -> None:
        """Write the list as a whole, but only over the one that was read: controllers change it too."""

        def written() -> bool:
            item = self._api.get(f"/api/v1/nodes/{node}")
            taints = change(item["spec"].get("taints", []))
            body = {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"]}, "spec": {"taints": taints}}
            status, answer = self._api.request("PATCH", f"/api/v1/nodes/{node}", body)
            if status not in (200, 409):
                raise TestbedError(f"taints of {node} not changed: {answer.get('message', answer)}")
            return status == 200

        if not wait_until(written, 10):
            raise TestbedError(f"taints of {node} not changed: somebody else changes the node all the time")

    def _patch_node(self, node: str, spec: Json) -> None:
        self._api.patch(f"/api/v1/nodes/{node}", {"spec": spec})


def kubelet(node: str) -> str:
    """Return the component name of a node's kubelet."""
    names = [known.name for known in nodes.NODES]
    if node not in names:
        raise TestbedError(f"the testbed has no Kubernetes node {node!r}; it has {', '.join(names)}")
    return f"kubelet-{node}"


def parse_taint(text: str) -> Json:
    """Read KEY[=VALUE]:EFFECT.

    >>> parse_taint("maintenance:NoSchedule")
    {'key': 'maintenance', 'effect': 'NoSchedule'}
    """
    left, colon, effect = text.rpartition(":")
    key, _, value = left.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        wanted = "KEY[=VALUE]:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute"
        raise TestbedError(f"{text!r} is no taint; write {wanted}")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _same_taint(one: Json, other: Json) -> bool:
    """Kubernetes knows a taint by key and effect."""
    return (one["key"], one["effect"]) == (other["key"], other["effect"])


def _gpu_node(node: str) -> str:
    if node not in gpu.NODES:
        raise TestbedError(f"Kubernetes node {node!r} has no GPUs; the testbed's GPU nodes are {', '.join(gpu.NODES)}")
    return node
