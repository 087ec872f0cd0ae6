"""Every check's meaning in words, by its id: what, why, how it is measured, what to do. Data only.

docs/verification/ is generated from here (``python -m dev.verification_pages``), and a test compares both with the
rows that the code makes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """One check."""

    id: str
    level: int
    what: str
    why: str
    how: str
    then: str


KUBERNETES = (
    Meaning(
        "cluster-stored-as-asked", 1,
        "The RayCluster in the cluster has the groups, sizes, GPUs and the token mode that the shape asks for.",
        "An older CRD drops fields that it does not know without a word; a cluster without its token is open to all.",
        "The stored RayCluster is read back and compared with the shape, group by group.",
        "Compare the object with the shape; update KubeRay's CRDs when a field is missing from it.",
    ),
    Meaning(
        "head-pod-ready", 1,
        "The head pod is there and Kubernetes calls it Ready.",
        "Everything else is reached through the head: GCS, dashboard, jobs.",
        "The pod's Ready condition.",
        "Read the pod's events, then its logs.",
    ),
    Meaning(
        "worker-pods-ready", 1,
        "Each group has as many worker pods as desired, all Ready. KubeRay makes them itself; there is no ReplicaSet.",
        "A training that starts on fewer pods waits for ranks that never come.",
        "Pods of the group, counted and asked for their Ready condition.",
        "Read the events of the pods that are not Ready.",
    ),
    Meaning(
        "nodes-match", 1,
        "The nodes of the worker pods carry the labels that were selected, and their taints are tolerated.",
        "A node that was relabelled or tainted after scheduling keeps its pods until they are evicted in mid-training.",
        "Labels and taints of each pod's node against selector, affinity, tolerations. Needs the right to see them.",
        "See who changed the node's labels or taints.",
    ),
    Meaning(
        "worker-pods-spread", 1,
        "Worker pods stand on different nodes where the shape requires it.",
        "Packed pods share one node's network and fall together with it.",
        "Pods per node, over the nodes that could take them: the largest difference may be one.",
        "See the pods' topologySpreadConstraints and which nodes had room.",
    ),
    Meaning(
        "same-image", 1,
        "Pods that were asked to run one image run one image ID.",
        "A tag that was moved, or an image that somebody changed in a pod, gives two versions of the code in one "
        "training.",
        "The image ID that each container runs, as the kubelet reports it, compared over all pods for which the shape "
        "names the same image.",
        "Name the image by its digest; see who changed the pod, or remove the stale image from the node.",
    ),
    Meaning(
        "head-service-ports", 1,
        "The head service has the ports for the dashboard (8265), GCS (6379) and Ray's client (10001).",
        "KubeRay copies exactly the ports that the head's container declares, if it declares any.",
        "The ports of the service that the RayCluster names.",
        "Declare all three ports in the head's container, or none.",
    ),
)  # fmt: skip

RAY = (
    Meaning(
        "ray-runtime-started", 2,
        "Ray runs in the head, in the version that the shape names.",
        "KubeRay shapes its commands by rayVersion; another Ray in the image fails late and strangely.",
        "The dashboard's own version, through the API server's service proxy.",
        "Use an image with the Ray version that the shape names.",
    ),
    Meaning(
        "gcs-healthy", 2,
        "Ray's Global Control Store answers.",
        "A dashboard may answer while the GCS behind it is dead; every actor call then hangs.",
        "The dashboard's /api/gcs_healthz.",
        "Read gcs_server.out in the head pod.",
    ),
    Meaning(
        "ray-nodes-alive", 2,
        "As many Ray nodes are ALIVE as pods were asked for, and none is a ghost without a pod.",
        "A Ready pod whose raylet did not join offers nothing to Ray.",
        "Ray's list of nodes against the desired number of pods.",
        "Compare the pods with Ray's nodes in the rows below; read raylet.out of the pod that is missing.",
    ),
    Meaning(
        "pod-mapped-to-ray-node", 2,
        "Each pod is exactly one ALIVE Ray node.",
        "Only then can a Ray fault be named by pod and Kubernetes node.",
        "By the pod's name that KubeRay hands to Ray, else by its IP.",
        "Read raylet.out in the pod's log folder.",
    ),
    Meaning(
        "head-offers-no-gpu", 2,
        "The Ray node of the head offers no GPU.",
        "A rank that lands on the head's claimed GPU trains on the CPU, or beside another pod.",
        "The resources of the head's Ray node.",
        'Set num-gpus: "0" for the head: without it Ray claims every GPU that the container happens to see.',
    ),
    Meaning(
        "token-required", 2,
        "Where the shape asks for token mode, a request without the token is refused.",
        "Whoever reaches an open dashboard can run code on every GPU of the cluster, with the pods' credentials.",
        "The list of jobs is asked for once more without the token, on the way by which all requests go; whether the "
        "token is KubeRay's (authOptions) or comes by Ray's environment makes no difference.",
        "See RAY_AUTH_MODE in the head's environment: an image or an overriding variable may switch it off.",
    ),
)  # fmt: skip

GPUS = (
    Meaning(
        "gpu-count", 3,
        "Pod limit, Ray resource and devices that the container sees are the same number.",
        "num-gpus is a claim: Ray believes it without looking.",
        "Limits from the pod, resources from Ray, devices from NVML (or nvidia-smi) inside the container.",
        "Device plugin or container runtime gave other devices than the limit: look at the plugin on that node.",
    ),
    Meaning(
        "gpu-allocatable", 3,
        "What each Kubernetes node has allocatable covers the limits of our pods there.",
        "A device plugin that is gone takes no GPU from a pod that runs; a pod that restarts finds none.",
        "Allocatable of the node against the sum of the limits of the cluster's pods on it. Needs the right to see "
        "nodes.",
        "Look at the device plugin of that node, and at devices that it calls unhealthy.",
    ),
    Meaning(
        "gpu-healthy", 3,
        "The kubelet calls each device of the pod healthy.",
        "A device that falls ill stays with the pod that holds it: only new pods are kept from it.",
        "allocatedResourcesStatus of the pod's containers, which Kubernetes 1.36 and later fill in (earlier ones where "
        "the feature ResourceHealthStatus is on); not checked elsewhere.",
        "Cordon the node and have the device checked; `on_fail: replace` gets a pod with another device.",
    ),
    Meaning(
        "gpu-real", 3,
        "The devices are real; or simulated, where the shape says `simulated: true`.",
        "A simulated GPU must never be taken for a real one, in a test as little as in a report.",
        "The container says whether its devices are simulated.",
        "Set `simulated: true` where GPUs are simulated; never do so for a real pool.",
    ),
    Meaning(
        "gpu-assigned-once", 3,
        "Ray gives each rank of a pod a GPU of its own.",
        "Two ranks on one GPU run out of memory or at half the pace.",
        "The GPU ids that Ray assigned to each rank.",
        "See num-gpus and CUDA_VISIBLE_DEVICES of the pod.",
    ),
    Meaning(
        "gpu-alike", 3,
        "All GPUs of a group are one product with one memory size and one driver.",
        "All ranks go at the pace of the slowest, and the smallest memory decides the batch.",
        "Name, memory and driver of each device.",
        "Select one GPU product with the group's node selector.",
    ),
    Meaning(
        "gpu-uuids-unique", 3,
        "No device is seen in two pods.",
        "A container that sees all of its node's devices trains on its neighbour's GPU.",
        "UUIDs of all devices (MIG instances where the GPU is cut) over all pods.",
        "The container runtime shows devices that were not given: NVIDIA_VISIBLE_DEVICES=all in the image, or "
        "privileged pods.",
    ),
    Meaning(
        "gpu-product", 3,
        "Where the group selects `nvidia.com/gpu.product`, the devices are that product.",
        "The label is put on by GPU Feature Discovery and may be stale or written by hand.",
        "The selector's value against the name that the driver gives; -SHARED and -MIG-... endings are allowed.",
        "See GPU Feature Discovery on that node.",
    ),
    Meaning(
        "gpu-driver", 3,
        "The NVIDIA driver answers every question about every device of the pod.",
        "A GPU that fell off the bus, a driver that was updated under a running node, a container that lost its "
        "devices: all count as GPUs until the first allocation.",
        "ctypes on libnvidia-ml.so.1 in a process of its own with a deadline of 20 s; NVML's own code is quoted. Not "
        "checked where the container has no such library (then nvidia-smi lists the devices).",
        "Follow the row's next step; for most codes: drain the node, reset the GPU or reboot.",
    ),
    Meaning(
        "gpu-memory-errors", 3,
        "No uncorrected ECC error since the driver's start, no row waiting to be remapped, no failed remapping.",
        "Uncorrected errors kill the process that reads them, hours into the training.",
        "NVML: volatile uncorrected ECC errors and remapped rows. Aggregate errors are history and not judged.",
        "Drain the node and reset the GPU; replace it when errors come back.",
    ),
    Meaning(
        "gpu-throttled", 3,
        "No GPU is slowed down by heat or power. A warning.",
        "A GPU that is hot when idle will be slow under load.",
        "NVML's reasons for the current clocks; a power cap alone is not counted.",
        "Look at the node's cooling and power supply.",
    ),
    Meaning(
        "gpu-links", 3,
        "All NVLinks are up and PCIe has its full width. A warning.",
        "One dead link makes collectives crawl without any error.",
        "NVML: state of each NVLink, current and largest PCIe width. The PCIe generation falls on idle GPUs and is not "
        "judged.",
        "Drain the node and look at the GPU's seat, NVLink bridge or fabric manager.",
    ),
    Meaning(
        "gpu-memory-free", 3,
        "The GPUs' memory is free before the run, but for what the driver keeps (3 %, at least 1 GiB). A warning.",
        "A process that an earlier job left behind makes the training run out of memory.",
        "NVML: total and free memory, processes.",
        "Find who holds it: a left process, or another container on the same GPU.",
    ),
    Meaning(
        "cuda-fits", 3,
        "Torch's CUDA is no newer than the driver's (by major version), and torch has code for the device.",
        "Otherwise the first kernel fails: no kernel image is available, or the driver is too old.",
        "torch.version.cuda and its list of architectures against the driver's CUDA version and the device's compute "
        "capability.",
        "Use an image whose torch is built for this driver and GPU.",
    ),
    Meaning(
        "shared-memory", 3,
        "The shared memory mount holds Ray's object store; shared memory as asked for, and the store with the stated "
        "heap, are below the container's memory limit.",
        "Pages of /dev/shm count against the limit: what is as large as the limit ends in an OOM kill.",
        "Size of the mount and of the cgroup's limit inside the container, size of the store from Ray, `shm_size` and "
        "`memory` of `ray_start_params` from the shape (the kubelet cuts a mount that is larger than the limit).",
        "Set shm_size, or a smaller object-store-memory, or more memory.",
    ),
)  # fmt: skip

JOB = (
    Meaning(
        "probe-ran", 4,
        "A small Ray job had a rank on every GPU bundle (or on every worker pod), and each rank answered everything.",
        "What cannot be placed or does not answer now would hang the training later.",
        "A placement group over all bundles; every question has a deadline, and a rank that is silent is named with "
        "pod, node and GPU. A result that is not of the probe's schema fails.",
        "Read the row's evidence, then the verification job's driver log. Where no rank started in a pod, look at its "
        "DNS first: each process of Ray resolves the head's name before it does anything else.",
    ),
    Meaning(
        "versions-alike", 4,
        "All ranks run one version of Python, Ray, torch and torch's CUDA.",
        "Mixed versions fail in pickling or in collectives, late and strangely.",
        "Each rank tells its versions.",
        "Use one image for all worker groups.",
    ),
    Meaning(
        "head-reachable", 4,
        "Each pod resolves the head's name and reaches the GCS port. Dashboard and client ports are told, not judged.",
        "DNS or a NetworkPolicy that is broken on one node shows first as a Ray node that disappears.",
        "The name in FQ_RAY_IP (else the GCS address) is resolved within 5 s and connected to within 3 s.",
        "Look at CoreDNS, the pod's DNS policy and the namespace's NetworkPolicies.",
    ),
    Meaning(
        "disk-room", 4,
        "The disk under Ray's session folder is less than 95 % full. A warning.",
        "Above that Ray spills nothing more: object creation fails as soon as the store is full.",
        "Free and total bytes of that file system, inside the pod.",
        "Free the node's disk, or give the pods an ephemeral-storage request or a volume.",
    ),
    Meaning(
        "shared-memory-written", 4,
        "What is written to /dev/shm is read back.",
        "A mount may be smaller than it says, full, or read only.",
        "Up to 32 MiB are written, read and compared.",
        "See the pod's /dev/shm: its size, and who fills it.",
    ),
    Meaning(
        "clocks-agree", 4,
        "The nodes' clocks are within 1 s of the head's (a warning); 300 s fail.",
        "Logs are ordered by these clocks, and object stores refuse requests that are signed at a wrong time.",
        "Each rank tells its time, three times; half of the quickest round trip is the error and is subtracted.",
        "Start time synchronisation (chrony) on that node.",
    ),
    Meaning(
        "gpu-copy", 4,
        "The CUDA driver makes a context, allocates, and every byte that is copied to the GPU and back is the same.",
        "The shortest proof that the device works, without torch; a driver that hangs is caught here.",
        "ctypes on libcuda.so.1 in a process of its own with a deadline of 25 s: 32 MiB of a random pattern through "
        "pinned memory, five times. The context goes with the process.",
        "Drain the node: its driver or GPU does not work.",
    ),
    Meaning(
        "compute", 4,
        "Each rank multiplies matrices on its own GPU (the CPU where it has none) with right numbers, in each format.",
        "A GPU that computes wrong numbers ends no job; it spoils a model.",
        "Small integers, so that fp32 and TF32 are exact: any difference is a fault (checked on the CPU by Freivalds' "
        "method in float64). bf16, fp16 and fp8 are compared with that product; tolerances 2^-7, 2^-8, 2^-5 of the "
        "largest element. A NaN is never right. Without torch a small product in Python.",
        "Wrong numbers: drain the node. A CPU in place of the GPU: driver, CUDA and torch do not fit.",
    ),
    Meaning(
        "collective", 4,
        "An all-reduce over all ranks gives the right sum on each, by NCCL on GPUs and by gloo on CPUs.",
        "Collectives are where network, NCCL and topology meet, and where trainings hang.",
        "Two sizes (8 and 256 MiB by NCCL, 1 and 16 MiB by gloo), every element checked; bus bandwidth as nccl-tests "
        "define it. Where several ranks share a node and there are several nodes, each node also reduces by itself, "
        "all at once. A round of sends then tells into which rank the slowest link leads. Without torch the parts are "
        "fetched through Ray.",
        "Look at the ranks without a right sum, then at the network between their nodes.",
    ),
    Meaning(
        "object-store", 4,
        "Each rank reads a block that another node put into Ray's object store.",
        "Data sets and checkpoints travel this way; a blocked object manager port hangs ray.get.",
        "1 MiB of random bytes and its SHA-256, from the node before.",
        "Look at the network between the worker pods (object manager ports).",
    ),
    Meaning(
        "storage-shared", 4,
        "Each rank writes to the shape's storage, and all see what the others wrote.",
        "A checkpoint that only one rank can see is lost with its node.",
        "One small file per rank, read by all ranks, then removed.",
        "Use a ReadWriteMany claim or an object store, mounted in every worker pod with write permission.",
    ),
    Meaning(
        "matmul-speed", 4,
        "Each rank reaches `min_matmul_tflops`.",
        "A slow GPU makes all others wait.",
        "TFLOP/s of bf16 (fp16, else fp32, where there is none) on 4096 x 4096, mean of ten after a warm-up.",
        "Look at the slow rank's GPU (clocks, other processes), or lower the floor in the shape.",
    ),
    Meaning(
        "copy-speed", 4,
        "Each rank reaches `min_copy_gbps` between host and device in both directions.",
        "Input and offloading go over this link.",
        "The best of five copies of 32 MiB through pinned memory; the slower direction counts.",
        "Look at the PCIe link of that GPU (gpu-links), or lower the floor in the shape.",
    ),
    Meaning(
        "allreduce-speed", 4,
        "The slowest rank reaches `min_allreduce_gbps`.",
        "Gradients cross this path in every step.",
        "Bus bandwidth of the larger all-reduce, the best of some rounds.",
        "Look at NCCL's choice of transport (NCCL_DEBUG=INFO) and at the network; or lower the floor in the shape.",
    ),
    Meaning(
        "stragglers", 4,
        "No rank is far below the others: in products, copies, or what it receives from the rank before.",
        "One slow GPU or link costs as much as if all were slow. Warned about, or failed: `straggler`.",
        "Per figure and product, at least three ranks: below 90 % of the median and a modified z-score (median and "
        "MAD of the logarithms) beyond 3.5.",
        "Look at that GPU's clocks, links and node; `straggler: fail` leaves it for another cluster.",
    ),
    Meaning(
        "speed-kept", 4,
        "No GPU is far below what it, or its product, measured in earlier verifications.",
        "A whole pool that became slow (a driver, a cooling that fails) has no outlier; its own past shows it.",
        "Products and copies against the last 20 verifications that passed on the cluster's Kubernetes nodes, of the "
        "same GPU where there are 5 of it, else of its product: below 90 % of their median and a modified z-score "
        "of the logarithms beyond 3.5 (a spread of at least 2 % is taken for noise). Warned about, or failed: "
        "`straggler`.",
        "Look at that GPU's clocks, heat and links; the history says since when.",
    ),
    Meaning(
        "probe-left-nothing", 4,
        "The probe's processes are gone, and the GPUs have as much free memory as before.",
        "A process in uninterruptible sleep cannot be killed and holds its GPU until the node is rebooted.",
        "A small task on each node with a silent rank or with devices that NVML counts, when the ranks are gone.",
        "Drain the node that is named.",
    ),
)  # fmt: skip

CHECKS: tuple[Meaning, ...] = (*KUBERNETES, *RAY, *GPUS, *JOB)
LEVELS = {1: "Kubernetes objects", 2: "Ray cluster state", 3: "GPU resources", 4: "Job submission"}
