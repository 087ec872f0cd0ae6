"""Nodes, devices, images, places."""

from __future__ import annotations

from dataclasses import replace

from rayflight.snapshot.model import Condition, Taint
from tests.examples.shape import PODS, Example, second, show
from tests.made_up import (
    GPU,
    NODES,
    at,
    cluster,
    container,
    event,
    foreign,
    head,
    node,
    pending,
    ray,
    snapshot,
    with_container,
    worker,
)

DOWN = Condition(type="Ready", status="Unknown", reason="NodeStatusUnknown", since=at(10))
BEFORE = {"previous": snapshot()}
LOST = (head(), worker(1))


def pulled(message, reason="ErrImagePull"):
    pod = with_container(
        worker(2, phase="Pending", conditions=()), "wait-gcs-ready", state="waiting", reason=reason, message=message
    )
    pod = replace(pod, containers=tuple(replace(it, started_at=None) for it in pod.containers))
    return show(pods=(head(), worker(1), pod))


def stuck(*says, nodes=NODES, pods=None, foreign_pods=(), events=(), **wish):
    return show(
        *says,
        nodes=nodes,
        pods=pods or (head(), worker(1), pending(2, **wish)),
        foreign_pods=foreign_pods,
        events=events,
    )


def one(node_index, **changes):
    return tuple(replace(it, **changes) if number == node_index else it for number, it in enumerate(NODES))


def xid(code):
    return show(
        "Xid",
        events=(event("XidError", f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=1", kind="Node", name="gpu-1", uid=""),),
    )


SMALL = tuple(node(f"gpu-{number}", 1) for number in (1, 2))

EXAMPLES: dict[str, Example] = {
    "node-not-ready": show("gpu-1", nodes=one(1, conditions=(DOWN,))),
    "node-gone": show("gpu-2", pods=LOST, nodes=NODES[:2], noted=BEFORE),
    "node-drained": show("gpu-2", "cordoned", pods=LOST, nodes=one(2, unschedulable=True), noted=BEFORE),
    "node-reclaimed": show(
        "impending",
        pods=LOST,
        noted=BEFORE,
        nodes=one(2, taints=(Taint(key="cloud.google.com/impending-node-termination", effect="NoSchedule"),)),
    ),
    "pod-evicted": show(
        "ephemeral", pods=second(phase="Failed", reason="Evicted", message="low on resource: ephemeral-storage")
    ),
    "node-refuses-pod": show(
        "Allocate failed", pods=second(phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed")
    ),
    "gpu-unhealthy": show(
        pods=(head(), worker(1), with_container(worker(2), "ray-worker", unhealthy_devices=("GPU-1",)))
    ),
    "node-offers-fewer-gpus": show("0 nvidia.com/gpu allocatable, 1 held", nodes=one(2, allocatable={"cpu": "8"})),
    "gpu-lost": show(
        "node gpu-2",
        pods=second(
            phase="Failed", reason="UnexpectedAdmissionError", message="nvml: GPU is lost, which is unexpected"
        ),
    ),
    "gpu-xid-hardware": xid(79),
    "gpu-uncorrectable-error": show(
        "node gpu-2 (pod flight-gpu-worker-2)",
        logs={
            "driver/train-1": "ray.exceptions.RayTaskError(RuntimeError): ray::f() (pid=7, ip=10.0.1.2, actor_id=a)\n"
            "RuntimeError: CUDA error: uncorrectable ECC error encountered"
        },
    ),
    "gpu-driver-not-injected": show(
        "libnvidia-ml",
        logs={"flight-gpu-worker-1/ray-worker": "could not load NVML library: libnvidia-ml.so.1: no such file"},
    ),
    "gpu-fraction-on-mig": show(
        "mig-1g",
        pods=second(annotations={"gpu-fraction": "0.5"}),
        nodes=one(2, allocatable={"nvidia.com/mig-1g.5gb": "7"}),
    ),
    "device-plugin-absent": stuck(
        "kube-system/nvidia-device-plugin-x",
        pods=(head(), pending(1), pending(2)),
        foreign_pods=(
            replace(
                foreign("nvidia-device-plugin-x", "", 0),
                namespace="kube-system",
                conditions=(
                    Condition(
                        type="PodScheduled", status="False", reason="Unschedulable", message="untolerated taint {gpu: }"
                    ),
                ),
            ),
        ),
        nodes=tuple(node(it.name, taints=it.taints, labels=it.labels) for it in NODES),
    ),
    "image-name-invalid": pulled("couldn't parse image name: invalid reference format", "InvalidImageName"),
    "image-never-pulled": pulled("not present with pull policy of Never", "ErrImageNeverPull"),
    "image-rate-limited": pulled("429 Too Many Requests: toomanyrequests"),
    "image-wrong-platform": pulled("no match for platform in manifest"),
    "image-unauthorized": pulled("unauthorized: authentication required"),
    "image-not-found": pulled("manifest unknown"),
    "image-registry-unknown": pulled("dial tcp: lookup registry.example: no such host"),
    "image-registry-untrusted": pulled("x509: certificate signed by unknown authority"),
    "image-registry-unreachable": pulled("dial tcp 10.0.0.9:443: connection refused"),
    "image-pull-failing": pulled("something else"),
    "taint-not-tolerated": stuck("nvidia.com/gpu", tolerations=()),
    "selector-matches-no-node": stuck("shared", node_selector={"shared": "true"}),
    "request-exceeds-nodes": stuck("has 4", containers=(container("ray-worker", gpus=8),)),
    "no-node-fits": stuck(
        nodes=(node("a", 4, taints=(Taint(key="x", effect="NoSchedule"),)), node("b", 1)),
        containers=(container("ray-worker", gpus=2),),
    ),
    "not-enough-in-total": show(
        "at most",
        nodes=(NODES[0], *SMALL),
        cluster=cluster(3),
        pods=(head(), worker(1), worker(2), pending(3)),
    ),
    "own-pods-in-the-way": stuck(
        nodes=(node("gpu-1", 1, allocatable={"cpu": "2", "memory": "8Gi", "pods": "110", GPU: "1"}), node("cpu-1")),
        pods=(head(node="gpu-1"), pending(1, containers=(container("ray-worker", gpus=1, cpu="1500m"),))),
    ),
    "nodes-not-usable-now": stuck("cordoned", nodes=tuple(replace(it, unschedulable=True) for it in NODES)),
    "resources-held-by-others": stuck(
        "RayCluster old since",
        foreign_pods=tuple(
            replace(
                foreign(f"held-{on}", on, 4 if on == "gpu-2" else 3), labels={"ray.io/cluster": "old"}, created_at=at(0)
            )
            for on in ("gpu-1", "gpu-2")
        ),
    ),
    "node-autoscaler-acting": stuck(
        events=(event("TriggeredScaleUp", "1->2", about=pending(2)),), node_selector={"kind": "a100"}
    ),
    "unschedulable": stuck("didn't satisfy", message="node(s) didn't satisfy pod anti-affinity"),
    "no-scheduler": show("volcano", pods=second(phase="Pending", node="", conditions=(), scheduler="volcano")),
    "ray-counts-foreign-gpus": show(
        "8 GPUs",
        cluster=cluster(head_start_params={}),
        ray=ray(nodes=tuple(replace(it, resources={"GPU": 8.0}) if it.is_head else it for it in ray(*PODS).nodes)),
    ),
    "gpu-resource-not-counted": show(
        "gpu.shared",
        pods=(
            head(),
            worker(1),
            replace(
                worker(2),
                containers=(replace(container("ray-worker"), limits={"cpu": "1", "nvidia.com/gpu.shared": "1"}),),
            ),
        ),
        ray=ray(
            nodes=tuple(
                replace(it, resources={"CPU": 1.0}) if it.id.endswith("uid-2") else it for it in ray(*PODS).nodes
            )
        ),
    ),
    "gpu-xid-application": show("Xid 31", logs={"driver/train-1": "NVRM: Xid (PCI:0000:3b:00): 31, pid=77, MMU Fault"}),
}
