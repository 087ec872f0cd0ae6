"""What drills do to the world, by name: an action takes the scene and its own words, and leaves its undo on the scene.

``ACTIONS`` is the list; an entry of the table names one of them. Real faults only: nothing here answers in the place of
a component, but for the proxy that loses an answer.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from dev.airflow_process import wait_until
from dev.cluster import RAY, Cluster
from dev.drills import queueing
from testbed import gpu, network, packages
from testbed.faults import Done, Faults
from testbed.faults_proxy import Drop, FlakyProxy, Pass

NAME = "rayflight-drill"


@dataclass
class Scene:
    """Where one drill happens. ``faults`` and ``flaky`` are there on the testbed only.

    ``undo`` mends the fault once the verdict is known; ``keep`` ends what the cluster needs until it is gone.
    """

    cluster: Cluster
    namespace: str
    faults: Faults | None = None
    flaky: FlakyProxy | None = None
    raycluster: str = ""
    undo: ExitStack = field(default_factory=ExitStack)
    keep: ExitStack = field(default_factory=ExitStack)

    @property
    def testbed(self) -> Faults:
        """The faults of the testbed."""
        if self.faults is None:
            raise LookupError("this drill breaks a node or a component: it is for the testbed only")
        return self.faults

    def pod(self, kind: str) -> dict[str, Any]:
        """The oldest living ``head`` or ``worker`` pod of the drill."""
        pods = self.cluster.pods(self.namespace, f"ray.io/node-type={kind}")
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName")]
        if not alive:
            raise LookupError(f"namespace {self.namespace} has no {kind} pod on a node")
        return min(alive, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def act(self, action: tuple[str, ...]) -> None:
        """Do what one entry of the table says."""
        ACTIONS[action[0]](self, *action[1:])


def quota(scene: Scene, *limits: str) -> None:
    """A ResourceQuota; returns when admission knows it."""
    path = f"/api/v1/namespaces/{scene.namespace}/resourcequotas"
    scene.cluster.request("POST", path, {"metadata": {"name": NAME}, "spec": {"hard": _pairs(limits)}})
    enforced = wait_until(
        lambda: bool(scene.cluster.request("GET", f"{path}/{NAME}").get("status", {}).get("hard")), 20
    )
    if not enforced:
        raise TimeoutError(f"the quota of {scene.namespace} is not enforced after 20 s")


def limit_range(scene: Scene, *most: str) -> None:
    """A LimitRange with the most that a container may ask."""
    limits = [{"type": "Container", "max": _pairs(most)}]
    path = f"/api/v1/namespaces/{scene.namespace}/limitranges"
    scene.cluster.request("POST", path, {"metadata": {"name": NAME}, "spec": {"limits": limits}})


def pod_security(scene: Scene, level: str) -> None:
    """Pod Security admission of the namespace."""
    label = {"pod-security.kubernetes.io/enforce": level}
    scene.cluster.request("PATCH", f"/api/v1/namespaces/{scene.namespace}", {"metadata": {"labels": label}})


def delete_pod(scene: Scene, kind: str) -> None:
    """At once: as a lost machine looks to the API."""
    path = f"/api/v1/namespaces/{scene.namespace}/pods/{scene.pod(kind)['metadata']['name']}"
    scene.cluster.delete(path, gracePeriodSeconds=0)


def evict(scene: Scene, kind: str) -> None:
    """Through the eviction API, as a drain does."""
    _evict(scene, scene.pod(kind)["metadata"]["name"])


def send_signal(scene: Scene, kind: str, pattern: str, name: str) -> None:
    """To processes of the pod, from the host."""
    pod = scene.pod(kind)["metadata"]["name"]
    done = scene.testbed.signal_in_pod(scene.namespace, pod, pattern, number=signal.Signals[f"SIG{name}"])
    scene.undo.enter_context(done)


def scale(scene: Scene, replicas: str) -> None:
    """The first worker group, as a person does with kubectl."""
    path = f"{RAY}/namespaces/{scene.namespace}/rayclusters/{scene.raycluster}"
    groups = scene.cluster.request("GET", path)["spec"]["workerGroupSpecs"]
    groups[0]["replicas"] = int(replicas)
    scene.cluster.request("PATCH", path, {"spec": {"workerGroupSpecs": groups}})


def stop(scene: Scene, component: str, seconds: str = "") -> None:
    """A component of the testbed; for so many seconds, or until the drill is over."""
    _for(scene, scene.testbed.stop(component), seconds)


def sick_gpu(scene: Scene, kind: str) -> None:
    """The GPU that the pod holds."""
    statuses = scene.pod(kind)["status"]["containerStatuses"]
    devices = [
        device["resourceID"]
        for status in statuses
        for resources in status.get("allocatedResourcesStatus") or ()
        for device in resources["resources"]
    ]
    scene.undo.enter_context(scene.testbed.make_gpu_unhealthy(*gpu.find(devices[0])))


def drain(scene: Scene, kind: str) -> None:
    """Cordon the pod's node and evict this drill's pods from it."""
    node = scene.pod(kind)["spec"]["nodeName"]
    scene.undo.enter_context(scene.testbed.cordon(node))
    for pod in scene.cluster.pods(scene.namespace):
        if pod["spec"].get("nodeName") == node:
            _evict(scene, pod["metadata"]["name"])


def stop_kubelet(scene: Scene, kind: str, seconds: str = "") -> None:
    """Of the pod's node."""
    _for(scene, scene.testbed.stop_kubelet(scene.pod(kind)["spec"]["nodeName"]), seconds)


def lose_node(scene: Scene, kind: str) -> None:
    """The pod's node, with every process of its pods. The undo is a reboot."""
    scene.undo.enter_context(scene.testbed.lose_node(scene.pod(kind)["spec"]["nodeName"]))


def stop_plugin(scene: Scene, kind: str, seconds: str = "") -> None:
    """The device plugin of the pod's node."""
    _for(scene, scene.testbed.stop_device_plugin(scene.pod(kind)["spec"]["nodeName"]), seconds)


def lose_answer(scene: Scene, match: str) -> None:
    """The next request that matches is carried out, and its answer is lost."""
    if scene.flaky is None:
        raise LookupError("this drill needs the proxy of the testbed")
    scene.flaky.follow([Drop(after_request=True), *[Pass()] * 1000], match)
    scene.undo.callback(scene.flaky.clear)


def redis(scene: Scene, port: str) -> None:
    """Debian's Redis on the testbed's own address: where a GCS with fault tolerance keeps its state."""
    packages.ensure(lambda _: None, {"redis-server": "redis-server"})
    folder = tempfile.mkdtemp(prefix="rayflight-redis-")
    scene.keep.callback(shutil.rmtree, folder, ignore_errors=True)
    command = ["redis-server", "--bind", network.API_ADDRESS, "--port", port, "--protected-mode", "no"]
    server = subprocess.Popen([*command, "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
    scene.keep.callback(server.wait)
    scene.keep.callback(server.terminate)


def _for(scene: Scene, done: Done, seconds: str) -> None:
    if not seconds:
        scene.undo.enter_context(done)
        return
    with done:
        time.sleep(float(seconds))


def _evict(scene: Scene, pod: str) -> None:
    path = f"/api/v1/namespaces/{scene.namespace}/pods/{pod}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": scene.namespace}}
    scene.cluster.request("POST", path, body)


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


ACTIONS: dict[str, Callable[..., None]] = {
    "quota": quota,
    "limit-range": limit_range,
    "pod-security": pod_security,
    "delete-pod": delete_pod,
    "evict": evict,
    "signal": send_signal,
    "scale": scale,
    "stop": stop,
    "sick-gpu": sick_gpu,
    "drain": drain,
    "stop-kubelet": stop_kubelet,
    "lose-node": lose_node,
    "stop-plugin": stop_plugin,
    "lose-answer": lose_answer,
    "redis": redis,
    "queue": queueing.queue,
    "other-team": queueing.other_team,
    "let-go": queueing.let_go,
}
