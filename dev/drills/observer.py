"""Watches the API beside the product and keeps when each change was first seen: what a verdict is measured against.

Independent of Rayflight on purpose: it shares no watch, no code and no opinion with it. One thread per kind.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3
from kubernetes.client import ApiException
from kubernetes.config import new_client_from_config

from dev.cluster import RAY, Cluster
from dev.drills.lines import SEEKER, failed_checks, line, seeks_head

WATCHED: dict[str, str] = {
    "/api/v1/pods": "Pod",
    "/api/v1/events": "Event",
    "/api/v1/nodes": "Node",
    f"{RAY}/rayclusters": "RayCluster",
}
_UNREACHABLE = (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Sight:
    """One change, in words. ``namespace`` is empty for what has none."""

    at: float
    namespace: str
    text: str


@dataclass
class Observer:
    """``with Observer(kubeconfig) as observer``: everything since then. ``more``: further kinds by path."""

    kubeconfig: Path
    namespace: str = ""  # where nothing else may be listed
    more: dict[str, str] = field(default_factory=dict)
    seen: list[Sight] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for path, kind in (WATCHED | self.more).items():
            self._run(partial(self._watch, within(path, self.namespace), kind))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(0.2)  # one that waits for the next change of a quiet kind ends with the process

    def first(self, sign: str, namespace: str, since: float) -> Sight | None:
        """The earliest change from ``since`` on that shows the sign, of the namespace or of no namespace."""
        pattern = re.compile(sign)
        found = [
            sight
            for sight in list(self.seen)
            if sight.at >= since and sight.namespace in ("", namespace) and pattern.search(sight.text)
        ]
        return min(found, key=lambda sight: sight.at, default=None)

    def note(self, namespace: str, text: str, at: float | None = None) -> None:
        """Something that the API does not say, such as that a task asked it."""
        self.seen.append(Sight(at or time.time(), namespace, text))

    def follow_ray(self, namespace: str, cluster: str, until: threading.Event) -> None:
        """Ask Ray itself about its jobs and pending demands, until told to stop."""
        self._run(partial(self._ask_ray, namespace, cluster, until))

    def _run(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self, path: str, kind: str) -> None:
        last: dict[str, str] = {}
        while not self._ended.is_set():
            with suppress(*_UNREACHABLE):
                for gone, item in _changes(self.kubeconfig, path, self._ended):
                    self._see({"kind": kind, **item}, gone=gone, last=last)
            self._ended.wait(0.5)

    def _see(self, item: dict[str, Any], *, gone: bool, last: dict[str, str]) -> None:
        uid, namespace = item["metadata"]["uid"], item["metadata"].get("namespace", "")
        text = line(item, gone=gone)
        if uid not in last and item["kind"] != "Event":
            self.note(namespace, f"{item['kind']} {item['metadata']['name']} created")
        if last.get(uid) != text:
            last[uid] = text
            self.note(namespace, text)

    def _ask_ray(self, namespace: str, cluster: str, until: threading.Event) -> None:
        kube, told, silence = Cluster(self.kubeconfig), set[str](), _Silence()
        while not until.is_set() and not self._ended.is_set():
            with suppress(*_UNREACHABLE):
                for at, text in _checks(kube, namespace):
                    if text not in told:
                        told.add(text)
                        self.note(namespace, text, at)
            with suppress(*_UNREACHABLE):
                jobs = kube.ray_jobs(namespace, cluster)
                logs = silence.of(kube, namespace, cluster, jobs)
                for at, text in [*_jobs(jobs), *logs, *_demands(kube, namespace, cluster)]:
                    if text not in told:
                        told.add(text)
                        self.note(namespace, text, at)
            until.wait(0.7)


def within(path: str, namespace: str) -> str:
    """The collection of one namespace, where there is one and the kind has namespaces.

    >>> within("/api/v1/pods", "mine"), within("/api/v1/nodes", "mine"), within("/api/v1/pods", "")
    ('/api/v1/namespaces/mine/pods', '/api/v1/nodes', '/api/v1/pods')
    """
    base, _, plural = path.rpartition("/")
    return path if not namespace or plural == "nodes" else f"{base}/namespaces/{namespace}/{plural}"


def _changes(kubeconfig: Path, path: str, ended: threading.Event) -> Iterator[tuple[bool, dict[str, Any]]]:
    """(gone?, object): all that is there, then each change, until the connection breaks."""
    api = new_client_from_config(str(kubeconfig))

    def ask(query: Sequence[tuple[str, str]], read_seconds: float) -> Any:
        return api.call_api(
            path,
            "GET",
            query_params=list(query),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
            _request_timeout=(3, read_seconds),
        )

    listed = json.loads(ask([], 10).data)
    for item in listed["items"]:
        yield False, item
    query = [("watch", "1"), ("resourceVersion", listed["metadata"]["resourceVersion"]), ("timeoutSeconds", "300")]
    rest = b""
    for block in ask(query, 320).stream(65536, decode_content=True):
        *complete, rest = (rest + block).split(b"\n")
        for text in complete:
            change = json.loads(text)
            if change["type"] == "ERROR" or ended.is_set():
                return
            yield change["type"] == "DELETED", change["object"]


@dataclass
class _Silence:
    """How long the driver logs of running jobs have not grown."""

    grown: dict[str, tuple[int, float]] = field(default_factory=dict)

    def of(self, kube: Cluster, namespace: str, cluster: str, jobs: Sequence[Any]) -> Iterator[tuple[float, str]]:
        service = f"/api/v1/namespaces/{namespace}/services/{cluster}-head-svc:dashboard/proxy"
        for name in (job["submission_id"] for job in jobs if job["status"] == "RUNNING"):
            size = len(str(kube.request("GET", f"{service}/api/jobs/{name}/logs").get("logs")))
            before, since = self.grown.get(name, (-1, 0.0))
            if size != before:
                since = time.time()
                self.grown[name] = (size, since)
            yield time.time(), f"Silence {name} {int(time.time() - since) // 5 * 5} s"


def _checks(kube: Cluster, namespace: str) -> Iterator[tuple[float, str]]:
    """What workers that do not find a Ready head say of it."""
    pods = kube.pods(namespace)
    ready = [
        datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
        for pod in pods
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if pod["metadata"]["labels"].get("ray.io/node-type") == "head"
        and (condition["type"], condition["status"]) == ("Ready", "True")
    ]
    for pod in pods if ready else ():
        if seeks_head(pod):
            name = pod["metadata"]["name"]
            for at, text in failed_checks(kube.log(namespace, name, SEEKER), ready[0]):
                yield at, f"Check {name} {text}"


def _jobs(jobs: Sequence[Any]) -> Iterator[tuple[float, str]]:
    for job in jobs:
        ended = job.get("end_time")
        message = " ".join(str(job.get("message") or "").split())[:200]
        yield ended / 1000 if ended else time.time(), f"Submission {job.get('submission_id')} {job['status']} {message}"


def _demands(kube: Cluster, namespace: str, cluster: str) -> Iterator[tuple[float, str]]:
    service = f"/api/v1/namespaces/{namespace}/services/{cluster}-head-svc:dashboard/proxy"
    answer = kube.request("GET", f"{service}/api/cluster_status", query={"format": "1"})
    said = str((answer.get("data") or {}).get("clusterStatus", ""))
    for text in said.partition("Pending Demands:")[2].splitlines():
        if text.strip() and "(no resource demands)" not in text:
            yield time.time(), f"Demand {text.strip()}"
