"""What drills do with Kueue: queues, somebody who holds their quota, somebody of higher priority. On the testbed only.

A Job stands for the other team: it asks for quota as a cluster does, and its one pod sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from dev.queues import KUEUE, Queues
from testbed.image import RAY_IMAGE

if TYPE_CHECKING:
    from dev.drills.provoke import Scene

WATCHED = {f"{KUEUE}/workloads": "Workload"}
PODS_READY = 60  # seconds: what a cluster needs at most here, and a drill can wait for
_JOBS = "/apis/batch/v1/namespaces/{}/jobs"


def queue(scene: Scene, name: str, gpus: str, *words: str) -> None:
    """A LocalQueue with that many GPUs (``hold``: stopped); it goes when the cluster is gone."""
    queues = Queues(scene.cluster, scene.namespace)
    queues.make(name, gpus=int(gpus), hold="hold" in words)
    scene.keep.callback(queues.clear)


def other_team(scene: Scene, name: str, priority: str, seconds: str = "") -> None:
    """Somebody who asks that queue for one GPU, for so many seconds or until the verdict is known."""
    labels = {"kueue.x-k8s.io/queue-name": name, "kueue.x-k8s.io/priority-class": priority}
    resources = {"cpu": "50m", "memory": "64Mi", "nvidia.com/gpu": "1"}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "other",
                "image": RAY_IMAGE,
                "command": ["sleep", "600"],
                "resources": {"requests": resources, "limits": resources},
            }
        ],
    }
    body = {"metadata": {"name": f"other-team-{priority}", "labels": labels}, "spec": {"template": {"spec": pod}}}
    path = _JOBS.format(scene.namespace)
    scene.cluster.request("POST", path, body)

    def leave() -> None:
        scene.cluster.delete(f"{path}/other-team-{priority}", propagationPolicy="Background")

    _after(scene, seconds, leave)


def let_go(scene: Scene, name: str, seconds: str) -> None:
    """End the hold of that queue after so many seconds."""
    _after(scene, seconds, lambda: Queues(scene.cluster, scene.namespace).let_go(name))


def _after(scene: Scene, seconds: str, work: Callable[[], None]) -> None:
    """Then, and at the latest when the drill is over."""
    scene.undo.callback(work)  # once more does no harm
    if seconds:
        timer = threading.Timer(float(seconds), work)
        timer.start()
        scene.undo.callback(timer.cancel)
