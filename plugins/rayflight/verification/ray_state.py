"""Level 2: Ray runs, its GCS is healthy, every pod is one ALIVE Ray node, and the head offers no GPU. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rayflight.findings import Check
from rayflight.snapshot.model import Gap, Pod, Ray, RayNode, Snapshot
from rayflight.snapshot.readiness import map_pods
from rayflight.specs import ClusterSpec
from rayflight.verification.rows import Row, counted, pod_named

_REFUSALS = (401, 403)
_SILENT = Gap(source="ray", why="the dashboard did not answer")


def level2(spec: ClusterSpec, snapshot: Snapshot) -> tuple[Check, ...]:
    """Ray's own picture, laid over that of Kubernetes."""
    return tuple(_rows(spec, snapshot))


def _rows(spec: ClusterSpec, snapshot: Snapshot) -> Iterator[Check]:
    yield _runtime(spec, snapshot)
    yield _gcs(snapshot)
    yield _count(snapshot)
    mapped = map_pods(snapshot).candidates
    for pod in snapshot.pods:
        if pod.deleting_since is None:
            yield _mapped(pod, mapped.get(pod.name, ()), snapshot)
    yield _head_offers_none(snapshot)
    yield _token(spec, snapshot)


def _runtime(spec: ClusterSpec, snapshot: Snapshot) -> Check:
    expected = f"started, version {spec.ray_version}" if spec.ray_version else "started"
    row = Row(
        id="ray-runtime-started",
        level=2,
        subject=f"Ray runtime of {snapshot.name}",
        expected=expected,
        next_step="use an image with the Ray version that the spec names",
    )
    if snapshot.ray is None:
        return row.gap(snapshot.gap("ray") or _SILENT)
    right = not spec.ray_version or spec.ray_version == snapshot.ray.version
    return row.judged(right, f"started, version {snapshot.ray.version}", evidence=f"session {snapshot.ray.session}")


def _gcs(snapshot: Snapshot) -> Check:
    row = Row(
        id="gcs-healthy", level=2, subject="GCS", expected="healthy", next_step="read gcs_server.out on the head pod"
    )
    if snapshot.ray is None or snapshot.ray.gcs_healthy is None:
        return row.gap(snapshot.gap("ray") or Gap(source="ray", why="/api/gcs_healthz was not read"))
    return row.judged(snapshot.ray.gcs_healthy, "healthy" if snapshot.ray.gcs_healthy else "not healthy")


def _unreadable(snapshot: Snapshot) -> Gap | None:
    if snapshot.ray is None:
        return snapshot.gap("ray") or _SILENT
    return snapshot.gap("ray.nodes")


def _count(snapshot: Snapshot) -> Check:
    want = snapshot.cluster.desired_pods if snapshot.cluster else len(snapshot.pods)
    row = Row(
        id="ray-nodes-alive",
        level=2,
        subject=f"Ray nodes of {snapshot.name}",
        expected=f"{counted(want, 'Ray node')} ALIVE, one per pod",
        next_step="compare the pods with Ray's nodes below",
    )
    gap = _unreadable(snapshot)
    if gap or snapshot.ray is None:
        return row.gap(gap or _SILENT)
    alive = snapshot.ray.alive()
    ghosts = [f"{node.id[:8]} ({node.ip})" for node in map_pods(snapshot).ghosts]
    text = f"{len(alive)} ALIVE" + (f", without a pod: {', '.join(ghosts)}" if ghosts else "")
    return row.judged(len(alive) == want and not ghosts, text)


def _mapped(pod: Pod, nodes: tuple[RayNode, ...], snapshot: Snapshot) -> Check:
    row = Row(
        id="pod-mapped-to-ray-node",
        level=2,
        subject=pod_named(pod),
        expected="exactly one ALIVE Ray node",
        next_step="read raylet.out in the pod's log folder",
        facts={"pod": pod.name, "ray_nodes": [node.id for node in nodes]},
    )
    gap = _unreadable(snapshot)
    if gap:
        return row.gap(gap)
    by = "by pod name" if nodes and nodes[0].pod else f"by IP {pod.ip}"
    return row.judged(len(nodes) == 1, f"{nodes[0].id} ({by})" if len(nodes) == 1 else counted(len(nodes), "Ray node"))


def _head_offers_none(snapshot: Snapshot) -> Check:
    pod = snapshot.head
    row = Row(
        id="head-offers-no-gpu",
        level=2,
        subject="Ray node of the head",
        expected="0 GPUs",
        next_step='set num-gpus: "0" for the head: without it Ray claims every GPU that the container happens to see',
        facts={"pod": pod.name, "node": pod.node} if pod else {},
    )
    gap = _unreadable(snapshot)
    head = _head_node(snapshot.ray)
    if gap or head is None:
        return row.gap(gap or Gap(source="ray.nodes", why="Ray lists no ALIVE head node"))
    offered = head.resources.get("GPU", 0.0)
    return row.judged(offered == 0, counted(offered, "GPU"))


def _token(spec: ClusterSpec, snapshot: Snapshot) -> Check:
    """Asked over the network, as a stranger would: what is stored says only what was wished for."""
    pod, answer = snapshot.head, snapshot.ray.without_token if snapshot.ray else None
    row = Row(
        id="token-required",
        level=2,
        subject=f"dashboard of {snapshot.name}",
        expected="a request without the token is refused",
        next_step="see RAY_AUTH_MODE in the head's environment and its Ray version (token mode needs 2.52 or later)",
        facts={"pod": pod.name, "node": pod.node} if pod else {},
    )
    if spec.auth != "token":
        return row.not_applicable("the shape asks for no token")
    if answer is None:
        return row.gap(snapshot.gap("ray.without_token") or snapshot.gap("ray") or _SILENT)
    if answer in _REFUSALS:
        return row.passed(f"HTTP {answer}")
    if 200 <= answer < 300:
        return row.failed(f"HTTP {answer}: the list of jobs was given away: whoever reaches the dashboard can run code")
    return row.unknown(f"HTTP {answer} is neither an answer nor a refusal")


def _head_node(ray: Ray | None) -> RayNode | None:
    return next((node for node in ray.alive() if node.is_head), None) if ray else None
