"""What `rayflight diagnose` costs on a large folder: 500 pods, 20,000 events. The command runs as a user runs it.

    python -m dev.bench_diagnose [--pods 500] [--events 20000] [--times 3] [--keep FOLDER]

Prints seconds (wall clock, start of Python included) and the peak of the process's memory; exits 1 above the limits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS, MEGABYTES = 3.0, 300.0
_NAMESPACE, _CLUSTER, _UID = "team-a", "big", "cluster-uid"
_NODES = 60
_PER_POD = 40  # what 20,000 events of 500 pods are


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu: float
    megabytes: float
    code: int


def write_folder(place: Path, *, pods: int, events: int) -> Path:
    """A cluster of that size, half of whose workers do not fit and some of which keep crashing."""
    (place / "ray").mkdir(parents=True)
    made = [_pod(number, pods) for number in range(pods)]
    told = [_event(number, made[number % pods]["metadata"]) for number in range(events)]
    files = {
        "collected": {"at": "2026-12-01T10:30:00+00:00"},
        "rayclusters": {"items": [_cluster(pods)]},
        "pods": {"items": made},
        "events": {"items": told},
        "events.events.k8s.io": {"items": told},
        "nodes": {"items": [_node(number) for number in range(_NODES)]},
        "services": {"items": []},
        "resourcequotas": {"items": []},
        "persistentvolumeclaims": {"items": []},
        "ray/version": {"ray_version": "2.60.0", "session_name": "session_1"},
        "ray/nodes": {"result": True, "data": {"result": {"result": []}}},
        "ray/jobs": [],
    }
    for name, data in files.items():
        (place / f"{name}.json").write_text(json.dumps(data))
    return place


def _cluster(pods: int) -> dict[str, object]:
    meta = {
        "name": _CLUSTER,
        "namespace": _NAMESPACE,
        "uid": _UID,
        "generation": 1,
        "creationTimestamp": "2026-12-01T10:00:00Z",
    }
    group = {
        "groupName": "gpu",
        "replicas": pods - 1,
        "minReplicas": pods - 1,
        "maxReplicas": pods - 1,
        "template": {"spec": _spec()},
    }
    status = {"observedGeneration": 1, "desiredWorkerReplicas": pods - 1}
    return {"metadata": meta, "spec": {"workerGroupSpecs": [group]}, "status": status}


def _spec() -> dict[str, object]:
    sizes = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    env = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(20)]
    return {
        "containers": [
            {"name": "ray-worker", "image": "ray:2.60.0", "env": env, "resources": {"limits": sizes, "requests": sizes}}
        ]
    }


def _pod(number: int, pods: int) -> dict[str, object]:
    head = number == 0
    placed = number < pods // 2
    labels = {"ray.io/cluster": _CLUSTER, "ray.io/node-type": "head" if head else "worker", "ray.io/group": "gpu"}
    meta = {
        "name": f"big-gpu-worker-{number:05d}",
        "namespace": _NAMESPACE,
        "uid": f"pod-{number}",
        "labels": labels,
        "creationTimestamp": "2026-12-01T10:00:01Z",
        "ownerReferences": [{"uid": _UID, "controller": True}],
    }
    spec = _spec() | ({"nodeName": f"node-{number % _NODES}"} if placed else {})
    crashing = placed and number % 7 == 3
    said = [
        {
            "type": "PodScheduled",
            "status": "True" if placed else "False",
            "reason": "" if placed else "Unschedulable",
            "message": "" if placed else "0/60 nodes are available: 60 Insufficient nvidia.com/gpu.",
            "lastTransitionTime": "2026-12-01T10:00:02Z",
        },
    ]
    last = {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": "2026-12-01T10:20:00Z"}}
    status = {
        "phase": "Running" if placed else "Pending",
        "podIP": f"10.0.{number // 250}.{number % 250}",
        "conditions": said,
        "containerStatuses": [
            {
                "name": "ray-worker",
                "ready": not crashing,
                "restartCount": 9 if crashing else 0,
                "state": {"running": {"startedAt": "2026-12-01T10:20:30Z"}},
                "lastState": last if crashing else {},
            },
        ],
    }
    return {"metadata": meta, "spec": spec, "status": status}


def _event(number: int, pod: object) -> dict[str, object]:
    about = pod if isinstance(pod, dict) else {}
    reasons = ("BackOff", "Unhealthy", "FailedScheduling", "Pulled", "Created", "Started", "Killing", "FailedMount")
    return {
        "metadata": {
            "name": f"event-{number}",
            "namespace": _NAMESPACE,
            "uid": f"event-{number}",
            "creationTimestamp": "2026-12-01T10:05:00Z",
        },
        "involvedObject": {
            "kind": "Pod",
            "namespace": _NAMESPACE,
            "name": about["name"],
            "uid": about["uid"],
            "apiVersion": "v1",
            "resourceVersion": "1234567",
            "fieldPath": "spec.containers{ray-worker}",
        },
        "reason": reasons[number // _PER_POD % len(reasons)],
        "message": f"Back-off restarting failed container ray-worker in pod {about['name']} number {number}: "
        + "x" * 300,
        "type": "Warning" if number % 3 else "Normal",
        "count": 1 + number % 5,
        "firstTimestamp": "2026-12-01T10:05:00Z",
        "lastTimestamp": f"2026-12-01T10:{5 + number % 20:02d}:{number % 60:02d}Z",
        "source": {"component": "kubelet", "host": "node-1"},
    }


def _node(number: int) -> dict[str, object]:
    sizes = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4"}
    return {
        "metadata": {"name": f"node-{number}", "labels": {f"label-{it}": "value" for it in range(30)}},
        "spec": {},
        "status": {"capacity": sizes, "allocatable": sizes, "conditions": [{"type": "Ready", "status": "True"}]},
    }


# Spawned from a small process: Linux counts the memory of whoever spawned a process as that process's own peak.
_SPAWN = """
import os, sys, time
began = time.perf_counter()
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
code = "from rayflight.cli.main import main; main()"
words = [sys.executable, "-c", code, "diagnose", sys.argv[1], "--json"]
_, status, usage = os.wait4(os.posix_spawn(sys.executable, words, os.environ, file_actions=quiet), 0)
cpu = usage.ru_utime + usage.ru_stime
print(time.perf_counter() - began, cpu, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


def measure(folder: Path) -> Cost:
    """One run of the command as a process of its own."""
    ran = subprocess.run([sys.executable, "-S", "-c", _SPAWN, str(folder)], capture_output=True, text=True, check=True)
    seconds, cpu, peak, code = ran.stdout.split()
    return Cost(float(seconds), float(cpu), _megabytes(float(peak)), int(code))


def _megabytes(peak: float) -> float:
    """``ru_maxrss`` is in KiB on Linux and in bytes on macOS."""
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    words.add_argument("--pods", type=int, default=500)
    words.add_argument("--events", type=int, default=20_000)
    words.add_argument("--times", type=int, default=3)
    words.add_argument("--keep", type=Path)
    asked = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-diagnose-") as temporary:
        place = asked.keep or Path(temporary) / "case"
        folder = place if place.exists() else write_folder(place, pods=asked.pods, events=asked.events)
        costs = [measure(folder) for _ in range(asked.times)]
    for cost in costs:
        print(f"{cost.seconds:6.2f} s (cpu {cost.cpu:.2f} s) {cost.megabytes:6.0f} MB  exit code {cost.code}")
    best = min(costs, key=lambda it: it.seconds)
    within = best.seconds <= SECONDS and max(it.megabytes for it in costs) <= MEGABYTES
    print(f"limit {SECONDS:.0f} s, {MEGABYTES:.0f} MB: {'kept' if within else 'BROKEN'}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
