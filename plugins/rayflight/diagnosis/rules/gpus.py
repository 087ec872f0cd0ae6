"""GPUs that fail, that the container does not see, or that Ray counts otherwise than Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Evidence, Finding
from rayflight.snapshot import capacity
from rayflight.snapshot.model import Pod, RayNode, quantity
from rayflight.snapshot.readiness import map_pods

# NVIDIA's Xid codes that matter for a training: what it is, and what to do. Codes that only follow others (45) and
# those that say nothing by themselves are left out.
XIDS: dict[int, tuple[str, str, str]] = {
    13: (
        "application",
        "graphics engine exception",
        "look for out-of-range memory access in the code (compute-sanitizer)",
    ),
    31: ("application", "memory page fault of the GPU", "look for an illegal memory access in the code"),
    43: ("application", "the GPU stopped a faulty process", "look at the code that ran there; the GPU itself is well"),
    48: ("hardware", "double-bit ECC error", "drain the node, reset or replace the GPU"),
    61: ("hardware", "internal micro-controller breakpoint", "reset the GPU, update the driver"),
    62: ("hardware", "internal micro-controller halt", "reset the GPU, update the driver"),
    63: ("hardware", "row remapping or page retirement pending", "drain the node and reset the GPU"),
    64: ("hardware", "row remapping or page retirement failed", "drain the node and replace the GPU"),
    74: ("hardware", "NVLink error", "drain the node, check links and bridges"),
    79: ("hardware", "the GPU has fallen off the bus", "cordon the node, restart it, check power, heat and slot"),
    92: ("hardware", "high rate of single-bit ECC errors", "drain the node and replace the GPU"),
    94: ("hardware", "contained ECC error: one process lost", "train again; drain the node if it comes back"),
    95: ("hardware", "uncontained ECC error", "drain the node and reset the GPU"),
    109: ("hardware", "context switch time-out", "reset the GPU, update the driver"),
    119: ("hardware", "the GPU's system processor does not answer", "restart the node, update driver and firmware"),
    120: ("hardware", "error of the GPU's system processor", "restart the node, update driver and firmware"),
    121: ("hardware", "C2C link error", "restart the node"),
    140: ("hardware", "unrecovered ECC error", "drain the node and reset the GPU"),
    143: ("hardware", "GPU initialisation failed", "restart the node, replace the GPU if it stays"),
    154: ("hardware", "the driver asks for a recovery action", "do what it names (reset, drain, restart the node)"),
}
_XID = re.compile(r"\bXid\b(?:\s*\([^)]*\))?\s*[:=]?\s*(?P<code>\d{1,3})\b")
_LOST = re.compile(r"(GPU is lost|fallen off the bus)", re.IGNORECASE)
# What CUDA says in the process (cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable): the card, not the code.
_UNCORRECTABLE = re.compile(r"uncorrectable (?:ECC|NVLink) error", re.IGNORECASE)
_SIGNS = ("Xid", "GPU is lost", "fallen off", "ncorrectable ECC", "ncorrectable NVLink")
_NEAR = 40  # lines: a traceback names its process at its beginning
# Said by libraries in the container, by the driver's own tool when the container starts, and by the runtime (CDI).
_NO_DRIVER = re.compile(
    r"(could not load NVML library|libnvidia-ml\.so\.1: cannot open shared object"
    r"|nvidia-container-cli(?:\.real)?: (?:initialization error|[\w ]*nvml error|[\w ]*driver)"
    r"|unresolvable CDI devices|failed to inject CDI devices|Failed to initialize NVML"
    r"|Found no NVIDIA driver on your system"
    r"|NVML_ERROR_LIBRARY_NOT_FOUND|NVML Shared Library Not Found)"
)
_WORKER_LINE = re.compile(r"\((?P<what>[^()\n]*?)pid=\d+, ip=(?P<ip>[\d.]+)")


def _said(case: Case) -> Iterator[tuple[str, str, Evidence, str | None]]:
    """(object, words, evidence, when) of events about our pods and nodes, and of logs."""
    pods = {pod.name for pod in case.now.pods}
    nodes = {pod.node for pod in case.now.pods if pod.node}
    for item in case.now.events:
        ours = (item.kind == "Pod" and item.name in pods) or (item.kind == "Node" and item.name in nodes)
        if ours and _speaks(item.message):
            yield f"{item.kind.lower()}/{item.name}", item.message, quoting.event(item), item.last_at
    for pod in case.now.pods:
        if pod.phase == "Failed" and pod.message:
            yield (
                f"pod/{pod.name}",
                pod.message,
                Evidence(object=f"pod {pod.name}", text=pod.message, at=pod.started_at),
                pod.started_at,
            )
    for name, text in case.now.logs.items():
        if _speaks(text):
            yield from _lines(case, name, text)


def _lines(case: Case, name: str, text: str) -> Iterator[tuple[str, str, Evidence, str | None]]:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _speaks(line):
            near = "\n".join(reversed(lines[max(number - _NEAR, 0) : number + 1]))
            pod = _pod_of(case, name, near) if name.startswith("driver/") else None
            yield f"pod/{pod.name}" if pod else _object_of(name), line, quoting.log(name, line), None


def _speaks(words: str) -> bool:
    return any(sign in words for sign in _SIGNS)


def _object_of(log: str) -> str:
    kind, slash, rest = log.partition("/")
    return f"log/{log}" if not slash else f"submission/{rest}" if kind == "driver" else f"pod/{kind}"


def _failed(case: Case) -> Iterable[Finding]:
    given: set[str] = set()
    for about, words, evidence, at in _said(case):
        found = (
            _xid(about, words, evidence, at, case)
            or _lost(about, words, evidence, at, case)
            or _uncorrectable(about, words, evidence, at, case)
        )
        if found and found.id not in given:
            given.add(found.id)
            yield found


def _xid(about: str, words: str, evidence: Evidence, at: str | None, case: Case) -> Finding | None:
    found = _XID.search(words)
    code = int(found["code"]) if found else 0
    if code not in XIDS:
        return None
    sort, what, step = XIDS[code]
    return KINDS[f"gpu-xid-{sort}"].finding(
        f"Xid {code} ({what}) on {_place(about, case)}: {quoting.clip(words, 300)}",
        objects=_objects(about, case),
        evidence=(evidence,),
        since=at,
        next_step=step,
    )


def _lost(about: str, words: str, evidence: Evidence, at: str | None, case: Case) -> Finding | None:
    if not _LOST.search(words):
        return None
    return KINDS["gpu-lost"].finding(
        f"A GPU is lost on {_place(about, case)}: {quoting.clip(words, 300)}",
        objects=_objects(about, case),
        evidence=(evidence,),
        since=at,
    )


def _uncorrectable(about: str, words: str, evidence: Evidence, at: str | None, case: Case) -> Finding | None:
    if not _UNCORRECTABLE.search(words):
        return None
    job = case.job
    ended = (f"submission/{job.id}",) if job and evidence.object == f"log driver/{job.id}" else ()
    return KINDS["gpu-uncorrectable-error"].finding(
        f"A GPU's memory or link failed on {_place(about, case)}: {quoting.clip(words, 300)}",
        objects=(*_objects(about, case), *ended),
        evidence=(evidence,),
        since=at,
    )


def _place(about: str, case: Case) -> str:
    kind, _, name = about.partition("/")
    pod = next((item for item in case.now.pods if kind == "pod" and item.name == name), None)
    return f"node {pod.node} (pod {name})" if pod and pod.node else f"{kind} {name}"


def _objects(about: str, case: Case) -> tuple[str, ...]:
    kind, _, name = about.partition("/")
    if kind == "node":
        return (about, *quoting.objects(pod for pod in case.now.pods if pod.node == name))
    pod = next((item for item in case.now.pods if item.name == name), None)
    return (about, f"node/{pod.node}") if pod and pod.node else (about,)


def _no_driver(case: Case) -> Iterable[Finding]:
    """The node has the GPU and gave it to the pod; the container does not see it, or cannot be made for it."""
    refused = next((told for it in case.pods if _has_gpus(it) and (told := _not_injected(case, it))), None)
    if refused is not None:
        yield refused
        return
    for name, text in case.now.logs.items():
        found = _NO_DRIVER.search(text)
        pod = _pod_of(case, name, quoting.line_of(found)) if found else None
        if found and pod and _has_gpus(pod):
            yield KINDS["gpu-driver-not-injected"].finding(
                f"Pod {pod.name} on node {pod.node} was given {capacity.gpus(capacity.limits(pod)):g} GPUs, but its "
                "container "
                f"does not see the driver: {quoting.clip(quoting.line_of(found), 300)}",
                objects=(*quoting.objects([pod]), f"node/{pod.node}"),
                evidence=(quoting.log(name, quoting.line_of(found)),),
            )
            return


def _has_gpus(pod: Pod) -> bool:
    return capacity.gpus(capacity.limits(pod)) > 0


def _not_injected(case: Case, pod: Pod) -> Finding | None:
    """The runtime's own words, before any process of the container ran."""
    for item in pod.containers:
        ending = item.terminated or item.last
        words = item.message if item.state == "waiting" else ""
        words = words or (ending.message if ending and ending.reason in ("StartError", "ContainerCannotRun") else "")
        if _NO_DRIVER.search(words):
            return _without_driver(pod, words, quoting.container(pod, item))
    told = [it for it in case.events("Failed", "FailedCreatePodSandBox", about=pod) if _NO_DRIVER.search(it.message)]
    if told and pod.phase == "Pending":
        return _without_driver(pod, told[-1].message, quoting.event(told[-1]))
    return None


def _without_driver(pod: Pod, words: str, evidence: Evidence) -> Finding:
    found = _NO_DRIVER.search(words)
    said = words[max(found.start() - 20, 0) :] if found else words
    return KINDS["gpu-driver-not-injected"].finding(
        f"Node {pod.node} gave pod {pod.name} {capacity.gpus(capacity.limits(pod)):g} GPUs, but cannot put the driver "
        f"into its container: {quoting.clip(said, 300)}",
        objects=(*quoting.objects([pod]), f"node/{pod.node}"),
        evidence=(evidence,),
        next_step="have the node's driver and container toolkit mended; a new cluster may go to another node",
    )


def _pod_of(case: Case, name: str, line: str) -> Pod | None:
    if not name.startswith("driver/"):
        return next((pod for pod in case.now.pods if name.startswith(f"{pod.name}/")), None)
    prefix = _WORKER_LINE.search(line)
    return next((pod for pod in case.now.pods if prefix and prefix["ip"] and pod.ip == prefix["ip"]), None)


def _counts(case: Case) -> Iterable[Finding]:
    if case.now.ray is None or not case.can_see("ray.nodes", "pods"):
        return
    joined = map_pods(case.now).candidates
    for pod in case.pods:
        nodes = joined.get(pod.name, ())
        if len(nodes) == 1 and (found := _differs(case, pod, nodes[0])):
            yield found


def _differs(case: Case, pod: Pod, node: RayNode) -> Finding | None:
    counted, given = node.resources.get("GPU", 0.0), capacity.gpus(capacity.limits(pod))
    expected = capacity.expected_gpus(pod, case.now)
    other = next((key for key in capacity.limits(pod) if _is_gpu(key)), None)
    evidence = (
        Evidence(object=f"Ray node {node.id[:8]} ({node.ip})", text=f"{counted:g} GPU", at=node.started_at),
        Evidence(object=f"pod {pod.name}", text=f"limits {dict(capacity.limits(pod))}"),
    )
    if counted > given and expected == given:
        return KINDS["ray-counts-foreign-gpus"].finding(
            f"Ray counts {counted:g} GPUs on pod {pod.name}, which owns {given:g}: it found the node's GPUs by "
            "itself, and will "
            "place work on GPUs of other pods",
            objects=quoting.objects([pod]),
            evidence=evidence,
        )
    if other and not counted and not given and not expected:
        return KINDS["gpu-resource-not-counted"].finding(
            f"Pod {pod.name} asks for {other}, which KubeRay does not count as a GPU: Ray offers 0 GPUs there",
            objects=quoting.objects([pod]),
            evidence=evidence,
        )
    return None


def _is_gpu(key: str) -> bool:
    return bool(re.search(r"/(gpu|mig-)", key))


def _fraction_on_mig(case: Case) -> Iterable[Finding]:
    nodes = {item.name: item for item in case.now.nodes}
    for pod in case.pods:
        wish = pod.annotations.get("gpu-fraction") or pod.annotations.get("gpu-memory")
        node = nodes.get(pod.node)
        mig = [
            key
            for key in (node.allocatable if node else ())
            if "/mig-" in key and node and quantity(node.allocatable[key])
        ]
        if wish and node and mig:
            yield KINDS["gpu-fraction-on-mig"].finding(
                f"Pod {pod.name} asks for a fraction of a GPU ({wish}) on node {node.name}, whose GPUs are MIG slices "
                f"({quoting.listed(mig)}): sharing and MIG do not go together, the pod sees no GPU",
                objects=(*quoting.objects([pod]), f"node/{node.name}"),
                evidence=(
                    Evidence(object=f"pod {pod.name}", text=f"annotation gpu-fraction {wish}", at=pod.created_at),
                ),
            )


RULES = (
    Rule(
        ids=("gpu-xid-hardware", "gpu-xid-application", "gpu-lost", "gpu-uncorrectable-error"),
        depth=Depth.NODE,
        check=_failed,
        past=True,
    ),
    Rule(ids=("gpu-driver-not-injected",), depth=Depth.NODE, check=_no_driver),
    Rule(ids=("ray-counts-foreign-gpus", "gpu-resource-not-counted"), depth=Depth.CLUSTER, check=_counts),
    Rule(ids=("gpu-fraction-on-mig",), depth=Depth.SCHEDULING, check=_fraction_on_mig),
)
