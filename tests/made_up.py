"""Small made-up facts for tests: one head, GPU workers, three nodes, healthy until a test changes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rayflight.snapshot.model import (
    Cluster,
    Condition,
    Container,
    Event,
    Gap,
    Group,
    Job,
    KubeNode,
    Pod,
    Ray,
    RayNode,
    Snapshot,
    Taint,
    Termination,
    Toleration,
)
from rayflight.states import JobStatus

NAMESPACE = "team-a"
NAME = "flight"
UID = "cluster-uid"
START = "2026-12-01T10:00:00.000Z"
NOW = "2026-12-01T10:01:00.000Z"
SESSION = "session_1"
GPU = "nvidia.com/gpu"
GPU_TAINT = Taint(key=GPU, value="present", effect="NoSchedule")
GPU_TOLERATION = Toleration(key=GPU, operator="Exists")
READY = Condition(type="Ready", status="True", since=START)


def at(seconds: float) -> str:
    """Seconds after START."""
    minutes, rest = divmod(seconds, 60)
    return f"2026-12-01T10:{int(minutes):02d}:{rest:06.3f}Z"


def node(name: str, gpus: int = 0, **changes: Any) -> KubeNode:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})
    made = KubeNode(
        name=name,
        labels={"kubernetes.io/hostname": name} | ({f"{GPU}.present": "true"} if gpus else {}),
        taints=(GPU_TAINT,) if gpus else (),
        capacity=allocatable,
        allocatable=allocatable,
        conditions=(READY,),
    )
    return replace(made, **changes)


NODES = (node("cpu-1"), node("gpu-1", 4), node("gpu-2", 4))


def container(name: str, *, gpus: int = 0, cpu: str = "1", memory: str = "2Gi", **changes: Any) -> Container:
    resources = {"cpu": cpu, "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    made = Container(
        name=name, image="registry.example/ray:2.60.0", image_id="sha256:1", state="running", ready=True,
        started_at=at(5), requests=resources, limits=resources,
    )  # fmt: skip
    return replace(made, **changes)


def head(**changes: Any) -> Pod:
    made = Pod(
        name=f"{NAME}-head-aaaaa", uid="head-uid", namespace=NAMESPACE, role="head", group="headgroup", phase="Running",
        node="cpu-1", ip="10.0.0.1", created_at=START, conditions=(READY,), containers=(container("ray-head"),),
        owner_uid=UID,
    )  # fmt: skip
    return replace(made, **changes)


def worker(number: int, *, gpus: int = 1, **changes: Any) -> Pod:
    init = container("wait-gcs-ready", cpu="200m", memory="256Mi", init=True, state="terminated")
    made = Pod(
        name=f"{NAME}-gpu-worker-{number}", uid=f"worker-uid-{number}", namespace=NAMESPACE, role="worker", group="gpu",
        phase="Running", node=f"gpu-{number}", ip=f"10.0.1.{number}", created_at=START, conditions=(READY,),
        containers=(init, container("ray-worker", gpus=gpus, healthy_devices=(f"GPU-{number - 1}",) * gpus)),
        tolerations=(GPU_TOLERATION,), owner_uid=UID,
        node_selector={f"{GPU}.present": "true"},
    )  # fmt: skip
    return replace(made, **changes)


def pending(number: int, message: str = "0/3 nodes are available", *, since: str = START, **changes: Any) -> Pod:
    """A worker pod that the scheduler could not place."""
    said = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message, since=since)
    parts = tuple(replace(item, state="unknown", ready=False) for item in worker(number).containers)
    return worker(
        number, **{"phase": "Pending", "node": "", "ip": "", "conditions": (said,), "containers": parts, **changes}
    )


def with_container(pod: Pod, name: str, **changes: Any) -> Pod:
    """The pod with one of its containers changed."""
    parts = tuple(replace(item, **changes) if item.name == name else item for item in pod.containers)
    return replace(pod, containers=parts)


def cluster(workers: int = 2, **changes: Any) -> Cluster:
    made = Cluster(
        name=NAME, uid=UID, namespace=NAMESPACE, created_at=START, generation=1, observed_generation=1, has_status=True,
        ray_version="2.60.0", head_service=f"{NAME}-head-svc",
        groups=(Group(name="gpu", desired=workers, minimum=workers, maximum=workers, limits={GPU: "1"}),),
        head_start_params={"num-gpus": "0"},
    )  # fmt: skip
    return replace(made, **changes)


def ray_node(of: Pod, /, **changes: Any) -> RayNode:
    gpus = 0.0 if of.role == "head" else 1.0
    made = RayNode(
        id=f"ray-{of.uid}", ip=of.ip, state="ALIVE", is_head=of.role == "head", group=of.group,
        resources={"CPU": 1.0} | ({"GPU": gpus} if gpus else {}), started_at=at(10),
    )  # fmt: skip
    return replace(made, **changes)


def ray(*pods: Pod, **changes: Any) -> Ray:
    made = Ray(session=SESSION, version="2.60.0", gcs_healthy=True, nodes=tuple(ray_node(pod) for pod in pods))
    return replace(made, **changes)


def snapshot(**changes: Any) -> Snapshot:
    """A healthy cluster; ``pods`` without ``ray`` gives every running pod its Ray node."""
    pods = changes.pop("pods", (head(), worker(1), worker(2)))
    made = Snapshot(
        namespace=NAMESPACE,
        name=NAME,
        taken_at=NOW,
        cluster=cluster(),
        pods=pods,
        nodes=NODES,
        ray=ray(*(pod for pod in pods if pod.phase == "Running" and not pod.deleting_since)),
    )
    return replace(made, **changes)


def event(reason: str, message: str, *, about: Pod | None = None, **changes: Any) -> Event:
    """An event about a pod, or about the RayCluster."""
    kind, name, uid = ("Pod", about.name, about.uid) if about else ("RayCluster", NAME, UID)
    made = Event(
        kind=kind, name=name, uid=uid, reason=reason, message=message, type="Warning", first_at=at(30), last_at=at(30)
    )
    return replace(made, **changes)


def foreign(name: str, on: str, gpus: int) -> Pod:
    """Somebody else's pod."""
    return Pod(
        name=name, uid=name, namespace="team-b", phase="Running", node=on, containers=(container("main", gpus=gpus),)
    )  # fmt: skip


def job(status: JobStatus = JobStatus.RUNNING, **changes: Any) -> Job:
    made = Job(id="train-1", ray_job="02000000", status=status, entrypoint="python train.py", started_at=at(20))
    return replace(made, **changes)


def gap(source: str, why: str = "forbidden") -> tuple[Gap, ...]:
    return (Gap(source=source, why=why),)


def ended(code: int, reason: str = "Error", seconds: float = 40) -> Termination:
    return Termination(reason=reason, exit_code=code, finished_at=at(seconds))
