"""Between the pods, and between us and the dashboard: policies, mesh, DNS, services, tokens, the head's agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Evidence, Finding
from rayflight.snapshot.model import Pod
from rayflight.snapshot.surroundings import NetworkPolicy

_INIT = "wait-gcs-ready"
_GCS = 6379
_DASHBOARD = 8265
_ADDRESSED = 120.0  # seconds; a cloud gives a load balancer its address within two minutes
_TOKEN = re.compile(r"Missing authentication token|Invalid authentication token")
_UNRESOLVED = re.compile(
    r"(Name or service not known|Temporary failure in name resolution|DNS resolution failed|no such host"
    r"|nodename nor servname|server can't find)",
    re.IGNORECASE,
)
_AGENT = re.compile(
    r"(Connect call failed \('[^']+', 52365\)|Cannot connect to host \S+:52365|Failed to get head node agent"
    r"|No available agent to submit job)"
)
_TOO_EARLY = re.compile(r"Failed to connect to Ray at address: http\S*")
_MESHES = {
    "istio-proxy": ("istio-init", "istio-validation"),
    "linkerd-proxy": ("linkerd-init", "linkerd-network-validator"),
}


def _waiting(case: Case) -> list[Pod]:
    """Worker pods whose init container looks for the head."""
    return [
        pod
        for pod in case.pods
        if pod.role == "worker" and any(it.init and it.name == _INIT and it.state == "running" for it in pod.containers)
    ]


def _policies(case: Case) -> Iterable[Finding]:
    head, waiting = case.now.head, _waiting(case)
    served = head.condition("Ready") if head else None
    if head is None or not waiting or served is None or served.status != "True":
        return
    selecting = [
        it for it in case.now.network_policies or () if it.ingress is not None and _selects(it.selector, head.labels)
    ]
    if selecting and not any(_admits(policy, waiting[0]) for policy in selecting):
        names = quoting.listed([item.name for item in selecting])
        yield KINDS["network-policy-blocks-head"].finding(
            f"NetworkPolicy {names} selects head pod {head.name} and lets nobody from {quoting.pods_named(waiting)} "
            "in on port "
            f"{_GCS}: the workers wait for ever in init container {_INIT}",
            objects=(*(f"networkpolicy/{item.name}" for item in selecting), *quoting.objects(waiting)),
            evidence=tuple(
                Evidence(object=f"NetworkPolicy {item.name}", text=f"ingress: {list(item.ingress or ())}"[:400])
                for item in selecting
            ),
            since=waiting[0].created_at,
        )


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    same = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return same and all(_holds(item, labels) for item in selector.get("matchExpressions") or ())


def _holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, wanted = labels.get(item.get("key") or ""), item.get("values") or ()
    return {
        "In": value in wanted,
        "NotIn": value not in wanted,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(item.get("operator") or "", False)


def _admits(policy: NetworkPolicy, worker: Pod) -> bool:
    return any(
        _on_port(rule.get("ports") or ()) and _from(rule.get("from") or (), worker) for rule in policy.ingress or ()
    )


def _on_port(ports: Sequence[Mapping[str, Any]]) -> bool:
    """A named port may be the GCS: it must not turn into "blocked"."""
    return not ports or any(
        not isinstance(item.get("port", _GCS), int)
        or item.get("port", _GCS) <= _GCS <= item.get("endPort", item.get("port", _GCS))
        for item in ports
    )


def _from(peers: Sequence[Mapping[str, Any]], worker: Pod) -> bool:
    """Peers by IP block or namespace are not modelled: they count as admitted."""
    return not peers or any(
        "ipBlock" in peer or "namespaceSelector" in peer or _selects(peer.get("podSelector") or {}, worker.labels)
        for peer in peers
    )


def _mesh(case: Case) -> Iterable[Finding]:
    """The mesh takes the pod's traffic from the start, its proxy runs only after the init containers."""
    for pod in _waiting(case):
        names = {item.name for item in pod.containers if item.init and not item.sidecar}
        main = {item.name for item in pod.containers if not item.init}
        proxy = next((name for name, inits in _MESHES.items() if name in main and names.intersection(inits)), None)
        if proxy:
            yield KINDS["mesh-blocks-init"].finding(
                f"Worker pod {pod.name} waits in init container {_INIT}, whose traffic the service mesh sends to "
                f"{proxy}, "
                "which starts only after it",
                objects=quoting.objects([pod]),
                evidence=(
                    Evidence(object=f"pod {pod.name}", text=f"containers {sorted(names | main)}", at=pod.created_at),
                ),
            )
            return


def _names(case: Case) -> Iterable[Finding]:
    for pod in _waiting(case):
        for name, text in case.logs_of(pod):
            found = _UNRESOLVED.search(text) if name.split("/")[1] == _INIT else None
            if found:
                yield KINDS["head-name-not-resolved"].finding(
                    f"Init container {_INIT} of pod {pod.name} cannot resolve the head's name: "
                    f"{quoting.clip(quoting.line_of(found), 300)}",
                    objects=quoting.objects([pod]),
                    evidence=(quoting.log(name, quoting.line_of(found)),),
                    since=pod.created_at,
                )
                return


def _token(case: Case) -> Iterable[Finding]:
    gap = case.now.gap("ray")
    if gap and _TOKEN.search(gap.why):
        yield KINDS["dashboard-token-refused"].finding(
            f"Ray's dashboard of RayCluster {case.now.name} asks for a token and refuses ours: "
            f"{quoting.clip(gap.why, 200)}",
            objects=(f"raycluster/{case.now.name}",),
            evidence=(Evidence(object="/api/version", text=quoting.clip(gap.why), at=case.now.taken_at),),
        )


def _services(case: Case) -> Iterable[Finding]:
    name = case.cluster.head_service if case.cluster else ""
    found = next((item for item in case.now.services if name and item.name == name), None)
    if found is None:
        return
    if found.ports and _DASHBOARD not in found.ports.values() and "dashboard" not in found.ports:
        yield KINDS["head-service-lacks-dashboard"].finding(
            f"Service {name} has the ports {dict(found.ports)}, none for the dashboard: KubeRay takes exactly what "
            "the head's "
            "container declares, if it declares any",
            objects=(f"service/{name}",),
            evidence=(Evidence(object=f"Service {name}", text=f"ports {dict(found.ports)}", at=found.created_at),),
        )
    if found.kind == "LoadBalancer" and not found.has_address and case.lasts(found.created_at, _ADDRESSED):
        yield KINDS["load-balancer-pending"].finding(
            f"Service {name} is of type LoadBalancer and has no address since {found.created_at}",
            objects=(f"service/{name}",),
            evidence=(Evidence(object=f"Service {name}", text="status.loadBalancer is empty", at=found.created_at),),
        )


def _agent(case: Case) -> Iterable[Finding]:
    for name, text in _said(case):
        found = _AGENT.search(text)
        if found:
            yield KINDS["head-agent-down"].finding(
                "The dashboard answers, but the agent of the head (port 52365) does not: "
                f"{quoting.clip(quoting.line_of(found), 300)}",
                objects=quoting.objects([case.now.head] if case.now.head else []),
                evidence=(quoting.log(name, quoting.line_of(found)),),
                retry_after=60.0,
            )
            return


def _said(case: Case) -> Iterator[tuple[str, str]]:
    yield from ((name, text) for name, text in case.now.logs.items() if "/" not in name or name.startswith("driver/"))
    job = case.job
    if job:
        yield f"driver/{job.id}", job.message
    yield from ((gap.source, gap.why) for gap in case.now.gaps if gap.source.startswith("ray"))


def _too_early(case: Case) -> Iterable[Finding]:
    """Whoever submits came before the dashboard listened."""
    pods = {pod.name for pod in case.now.pods}
    for name, text in case.now.logs.items():
        found = _TOO_EARLY.search(text)
        if found and name.split("/")[0] not in (*pods, "driver"):
            head = case.now.head
            ready = head.condition("Ready") if head else None
            then = (
                f"; the head is Ready since {ready.since}"
                if ready and ready.status == "True"
                else "; the head is not Ready"
            )
            yield KINDS["dashboard-not-listening"].finding(
                f"A client came before Ray's dashboard listened: {quoting.clip(quoting.line_of(found), 200)}{then}",
                objects=quoting.objects([head] if head else []),
                evidence=(quoting.log(name, quoting.line_of(found)),),
                retry_after=30.0,
            )
            return


RULES = (
    Rule(ids=("network-policy-blocks-head",), depth=Depth.ADMISSION, check=_policies),
    Rule(ids=("mesh-blocks-init",), depth=Depth.ADMISSION, check=_mesh),
    Rule(ids=("head-name-not-resolved",), depth=Depth.ADMISSION, check=_names),
    Rule(ids=("dashboard-token-refused",), depth=Depth.CLUSTER, check=_token),
    Rule(ids=("head-service-lacks-dashboard", "load-balancer-pending"), depth=Depth.ADMISSION, check=_services),
    Rule(ids=("head-agent-down",), depth=Depth.CLUSTER, check=_agent),
    Rule(ids=("dashboard-not-listening",), depth=Depth.CLUSTER, check=_too_early),
)
