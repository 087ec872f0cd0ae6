"""Pods that the API server refuses: quota, LimitRange, Pod Security, webhooks. No pod exists, so nothing is Pending."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot import capacity
from rayflight.snapshot.model import Cluster, quantity

_FAILED = ("FailedToCreateHeadPod", "FailedToCreateWorkerPod")
_ABOVE_LIMIT = re.compile(r"must be less than or equal to (?P<resource>\S+) limit")
_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+?), used: (?P<used>.+?), limited: (?P<hard>.+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    id: str
    title: str
    pattern: str
    next_step: str
    decision: Decision = Decision.FAIL


_KINDS = (
    _Kind(
        id="quota-must-be-specified",
        title="The quota wants a value that the pod does not give",
        pattern=r"failed quota: .*must specify",
        next_step="set the requests and limits that the quota counts",
    ),
    _Kind(
        id="pod-security-refuses",
        title="Pod Security refuses the pod",
        pattern=r"violates PodSecurity|any security context constraint",
        next_step="change the pod's securityContext, the namespace's level, or (OpenShift) the service account's SCC",
    ),
    _Kind(
        id="limit-range-refuses",
        title="A LimitRange refuses the pod",
        pattern=r"(maximum|minimum) \S+ usage per |limit to request ratio|must be less than or equal to \S+ limit",
        next_step="set requests and limits inside the namespace's LimitRange (it also fills in what is absent)",
    ),
    _Kind(
        id="webhook-unreachable",
        title="An admission webhook cannot be reached",
        pattern=r"failed calling webhook",
        decision=Decision.RETRY_AFTER,
        next_step="check the webhook's service; the spec is not at fault",
    ),
    _Kind(
        id="webhook-refuses",
        title="An admission webhook refuses the pod",
        pattern=r"admission webhook .* denied|denied the request",
        next_step="follow the webhook's words",
    ),
    _Kind(
        id="service-account-missing",
        title="The service account does not exist",
        pattern=r"serviceaccount \"[^\"]+\" not found",
        next_step="create the service account or name another",
    ),
    _Kind(
        id="priority-class-missing",
        title="The priority class does not exist",
        pattern=r"no PriorityClass with name",
        next_step="create the priority class or name another",
    ),
    _Kind(
        id="runtime-class-missing",
        title="The runtime class does not exist",
        pattern=r"RuntimeClass \"[^\"]+\" not found",
        next_step="create the runtime class or name another",
    ),
    _Kind(
        id="namespace-terminating",
        title="The namespace is being deleted",
        pattern=r"because it is being terminated",
        next_step="use another namespace, or wait until it is gone and create it again",
    ),
    _Kind(
        id="operator-forbidden",
        title="The operator may not create pods",
        pattern=r"forbidden: User \"[^\"]+\" cannot",
        next_step="an administrator grants the verb to the operator's service account",
    ),
    _Kind(
        id="pod-invalid",
        title="The API server calls the pod invalid",
        pattern=r" is invalid: |Invalid value|is forbidden: ",
        next_step="correct the pod's template",
    ),
    _Kind(
        id="pod-creation-failing",
        title="Pods cannot be created",
        pattern=r"",
        decision=Decision.RETRY_AFTER,
        next_step="read the API server's words; the operator tries again by itself",
    ),
)


def _check(case: Case) -> Iterable[Finding]:
    cluster = case.cluster
    if cluster is None or not case.missing_pods():
        return
    words, evidence = _signs(case, cluster)
    if not evidence:
        return
    quota = _QUOTA.search(words)
    if quota is None:
        yield _refused(case, cluster, words, evidence)
    else:
        yield _backs_off(case, cluster, quota, evidence) or _over_quota(case, cluster, quota, evidence)


def _signs(case: Case, cluster: Cluster) -> tuple[str, tuple[Evidence, ...]]:
    """The condition holds as long as the fault does; the event, where there is no condition, only says that it was."""
    failed = [item for item in cluster.conditions if item.type == "ReplicaFailure"]
    holding = [item for item in failed if item.status == "True"]
    events = case.events(*_FAILED)[-1:]
    if failed and not holding:
        return "", ()
    words = [*(item.message for item in holding), *(item.message for item in events)]
    quoted = [quoting.condition(f"RayCluster {cluster.name}", item) for item in holding]
    if cluster.state == "failed" and cluster.status_reason:  # KubeRay before 1.2: no condition, no event
        words.append(cluster.status_reason)
        quoted.append(
            Evidence(object=f"RayCluster {cluster.name}", text=quoting.clip(f"failed: {cluster.status_reason}"))
        )
    return words[0] if words else "", (*quoted, *(quoting.event(item) for item in events))


def _refused(case: Case, cluster: Cluster, words: str, evidence: tuple[Evidence, ...]) -> Finding:
    kind = next(kind for kind in _KINDS if re.search(kind.pattern, words, re.IGNORECASE))
    return Finding(
        id=kind.id,
        title=kind.title,
        layer=KINDS[kind.id].layer,
        summary=f"{_missing(case, cluster)}: {kind.title}: "
        f"{quoting.clip(words, 400)}{_filled_in(case, kind.id, words)}",
        next_step=kind.next_step,
        decision=kind.decision,
        objects=(f"raycluster/{cluster.name}",),
        evidence=evidence,
        since=quoting.earliest(evidence),
        retry_after=60.0 if kind.decision is Decision.RETRY_AFTER else None,
    )


def _filled_in(case: Case, kind: str, words: str) -> str:
    """A request that exceeds a limit which nobody wrote: the LimitRange fills it in."""
    found = _ABOVE_LIMIT.search(words)
    if kind != "limit-range-refuses" or found is None:
        return ""
    resource = found["resource"]
    names = [
        f"{it.name} ({resource} {it.defaults[resource]})"
        for it in case.now.limit_ranges or ()
        if resource in it.defaults
    ]
    return f"; LimitRange {quoting.listed(names)} fills in that limit where the pod has none" if names else ""


def _missing(case: Case, cluster: Cluster) -> str:
    return f"{case.missing_pods()} of {cluster.desired_pods} pods of RayCluster {cluster.name} cannot be created"


def _backs_off(case: Case, cluster: Cluster, found: re.Match[str], evidence: tuple[Evidence, ...]) -> Finding | None:
    """The quota has room by now; the operator waits ever longer between two tries (up to 16 minutes)."""
    known = next((item for item in case.now.quotas if item.name == found["name"]), None)
    asked = _amounts(found["asked"])
    if known is None or not known.used or not asked:
        return None
    room = {key: _number(known.hard.get(key, "0")) - _number(known.used.get(key, "0")) for key in asked}
    if any(room[key] < _number(amount) for key, amount in asked.items()):
        return None
    too_big = any(asked_of(cluster, key) > _number(amount) for key, amount in known.hard.items())
    return (
        None
        if too_big
        else KINDS["operator-backing-off"].finding(
            f"{_missing(case, cluster)} for want of quota {known.name}, but it has room now ("
            f"{'; '.join(f'{key}: used {known.used.get(key)} of {known.hard.get(key)}' for key in asked)}): the "
            "operator waits "
            "before it tries again, longer each time",
            objects=(f"resourcequota/{known.name}", f"raycluster/{cluster.name}"),
            evidence=evidence,
        )
    )


def _over_quota(case: Case, cluster: Cluster, found: re.Match[str], evidence: tuple[Evidence, ...]) -> Finding:
    """Below what the whole cluster asks for: a failure. Used up by others: a wait (decision 12)."""
    name = found["name"]
    known = next((item for item in case.now.quotas if item.name == name), None)
    hard = known.hard if known else _amounts(found["hard"])
    used = known.used if known and known.used else _amounts(found["used"])
    too_big = {key: need for key in hard if (need := asked_of(cluster, key)) > _number(hard[key])}
    keys = [*too_big] or [*_amounts(found["asked"])]
    one = _amounts(found["asked"])
    numbers = "; ".join(
        f"{key}: the cluster asks for {_written(key, asked_of(cluster, key))}"
        f", used {used.get(key, '?')}, hard limit {hard.get(key, '?')}"
        f"{f' (the refused pod alone: {one[key]})' if key in one else ''}"
        for key in keys
    )
    holders = "" if too_big else _holders(case, keys)
    return Finding(
        id="quota-below-request" if too_big else "quota-used-up",
        title="The namespace's quota is below what the cluster asks for"
        if too_big
        else "The quota is used up by others",
        layer=Layer.KUBERNETES,
        summary=f"{_missing(case, cluster)}: ResourceQuota {name} in namespace {cluster.namespace}: {numbers}{holders}",
        next_step=(
            "ask for less, or have the quota raised"
            if too_big
            else "wait until others release it (the operator then tries again, up to minutes later), or ask for less"
        ),
        decision=Decision.FAIL if too_big else Decision.WAIT,
        objects=(f"resourcequota/{name}", f"raycluster/{cluster.name}"),
        evidence=evidence,
        since=quoting.earliest(evidence),
    )


def _written(key: str, amount: float) -> str:
    """As a quota writes it: bytes in Gi."""
    return f"{amount / 2**30:g}Gi" if key.endswith(("memory", "storage")) else f"{amount:g}"


def _amounts(text: str) -> dict[str, str]:
    """``requests.cpu=1,requests.memory=2Gi`` as a map."""
    pairs = (item.partition("=") for item in text.split(","))
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def _number(text: str) -> float:
    try:
        return quantity(text)
    except ValueError:  # a clipped message: without its number it proves nothing
        return float("inf")


def asked_of(cluster: Cluster, key: str) -> float:
    """What all desired pods together ask of one entry of a quota; 0 for what pods do not use."""
    if key in ("pods", "count/pods"):
        return float(cluster.desired_pods)
    kind, _, resource = key.partition(".") if key.startswith(("requests.", "limits.")) else ("requests", "", key)
    head = _one(kind, resource, cluster.head_requests, cluster.head_limits)
    return head + sum(_one(kind, resource, it.requests, it.limits) * it.desired for it in cluster.groups)


def _one(kind: str, resource: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> float:
    source = limits if kind == "limits" else {**limits, **requests}
    return quantity(source.get(resource, "0"))


def _holders(case: Case, keys: list[str]) -> str:
    if not case.can_see("foreign_pods"):
        return ""
    resource = keys[0].removeprefix("requests.").removeprefix("limits.") if keys else ""
    held = [
        f"{pod.name} ({amount:g})"
        for pod in case.now.foreign_pods
        if pod.namespace == case.now.namespace and (amount := capacity.asked(pod).get(resource, 0.0))
    ]
    return f"; held by {quoting.listed(held)}" if held else ""


RULES = (
    Rule(
        ids=("quota-below-request", "quota-used-up", "operator-backing-off", *(kind.id for kind in _KINDS)),
        depth=Depth.ADMISSION,
        check=_check,
    ),
)
