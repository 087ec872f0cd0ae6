"""When a cluster's pods came and went, seen from outside by polling; the same for everybody who is measured."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from dev.cluster import RAY, Cluster, holds_resources, is_ready

_BEFORE = 0.1  # seconds between looks while nothing is there yet: the start must not be seen late
_AFTER = 0.3


class Stopwatch:
    """Watches one namespace from entering to leaving the ``with`` block. Times are time.time()."""

    def __init__(self, cluster: Cluster, namespace: str, pods: int) -> None:
        self._cluster, self._namespace, self._pods = cluster, namespace, pods
        self.created: float | None = None  # the RayCluster was first seen
        self.ready: float | None = None  # all its pods were Ready
        self.gone: float | None = None  # no pod held anything any more
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def wait_gone(self, seconds: float) -> float:
        """When the last pod had gone; raises when it does not in time."""
        deadline = time.monotonic() + seconds
        while self.gone is None:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise TimeoutError(f"pods of namespace {self._namespace} are still there after {seconds:.0f} s")
            time.sleep(0.05)
        return self.gone

    def _watch(self) -> None:
        while not self._done.wait(_BEFORE):
            if self._cluster.items(f"{RAY}/namespaces/{self._namespace}/rayclusters"):
                self.created = time.time()
                break
        seen = False
        while not self._done.wait(_AFTER):
            pods = [pod for pod in self._cluster.pods(self._namespace) if holds_resources(pod)]
            seen = seen or bool(pods)
            ray = [pod for pod in pods if "ray.io/node-type" in pod["metadata"]["labels"]]
            if self.ready is None and len(ray) >= self._pods and all(map(is_ready, ray)):
                self.ready = time.time()
            if seen and not pods:
                self.gone = time.time()
                return
