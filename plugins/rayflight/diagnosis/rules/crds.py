"""What was asked for against what is stored and understood: CRDs that are absent or older than the manifest."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Evidence, Finding

_NO_KIND = re.compile(
    r"could not find the requested resource|no matches for kind|doesn't have a resource type", re.IGNORECASE
)
_AUTH = "spec.authOptions"


def _dropped(case: Case) -> Iterable[Finding]:
    cluster = case.cluster
    if cluster is None or not cluster.dropped:
        return
    open_door = (
        ": a token was asked for, and the dashboard, through which anybody may run code, is open"
        if any(field.startswith(_AUTH) for field in cluster.dropped)
        else ""
    )
    yield KINDS["fields-dropped-by-crd"].finding(
        f"The installed CRD dropped {quoting.listed(cluster.dropped)} of RayCluster {cluster.name}{open_door}",
        objects=(f"raycluster/{cluster.name}",),
        evidence=(
            Evidence(
                object=f"RayCluster {cluster.name}",
                text=f"asked for, not stored in generation 1: {', '.join(cluster.dropped)}",
                at=cluster.created_at,
            ),
        ),
    )


def _absent(case: Case) -> Iterable[Finding]:
    gap = case.now.gap("cluster")
    if gap and _NO_KIND.search(gap.why):
        yield KINDS["crd-not-installed"].finding(
            f"This Kubernetes knows no RayClusters: {quoting.clip(gap.why, 200)}",
            objects=(f"raycluster/{case.now.name}",),
            evidence=(Evidence(object="rayclusters.ray.io", text=quoting.clip(gap.why), at=case.now.taken_at),),
        )


def _hosts(case: Case) -> Iterable[Finding]:
    """An operator that multiplies by numOfHosts, and a CRD that has no such field: zero workers."""
    cluster = case.cluster
    if cluster is None or cluster.suspended or cluster.status_desired != 0:
        return
    groups = [item for item in cluster.groups if item.replicas > 0 and not item.hosts and item.desired]
    if groups:
        asked = sum(item.replicas for item in groups)
        yield KINDS["crd-lacks-num-of-hosts"].finding(
            f"RayCluster {cluster.name} asks for {asked} workers, and the operator counts 0 desired: the stored "
            "groups have no "
            "numOfHosts, which this operator multiplies with. The CRD is older than the operator",
            objects=(f"raycluster/{cluster.name}",),
            evidence=(
                Evidence(
                    object=f"RayCluster {cluster.name}",
                    text=f"desiredWorkerReplicas 0, replicas {asked}, numOfHosts absent",
                    at=cluster.created_at,
                ),
            ),
        )


def _groups_twice(case: Case) -> Iterable[Finding]:
    names = [item.name for item in case.cluster.groups] if case.cluster else []
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield KINDS["group-name-twice"].finding(
            f"RayCluster {case.now.name} has several worker groups called {quoting.listed(twice)}: the operator takes "
            "the pods "
            "of one for those of the other, and makes and deletes them in turn",
            objects=(f"raycluster/{case.now.name}",),
            evidence=(
                Evidence(
                    object=f"RayCluster {case.now.name}",
                    text=f"groups {', '.join(names)}",
                    at=case.cluster.created_at if case.cluster else None,
                ),
            ),
        )


RULES = (
    Rule(ids=("fields-dropped-by-crd",), depth=Depth.ADMISSION, check=_dropped),
    Rule(ids=("crd-not-installed",), depth=Depth.ADMISSION, check=_absent),
    Rule(ids=("crd-lacks-num-of-hosts",), depth=Depth.ADMISSION, check=_hosts),
    Rule(ids=("group-name-twice",), depth=Depth.ADMISSION, check=_groups_twice),
)
