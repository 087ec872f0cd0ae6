"""What the operator says in its own log or in events: rights that it lacks, notes of an older version, two heads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.diagnosis.kinds import KINDS
from rayflight.findings import Evidence, Finding

_FORBIDDEN = re.compile(
    r'forbidden: User "system:serviceaccount:(?P<space>[^":]+):(?P<account>[^"]*operator[^"]*)" cannot (?P<verb>\w+) '
    r'resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<where>[^"]+)")?'
)
_OLD_NOTE = re.compile(r'strconv\.Atoi: parsing "": invalid syntax|Failed to serialize new RayCluster config')


def _told(case: Case) -> Iterator[tuple[str, Evidence]]:
    uid = case.now.cluster.uid if case.now.cluster else None
    for item in case.now.events:
        if item.kind == "RayCluster" and item.uid == uid:
            yield item.message, quoting.event(item)
    for name, text in case.now.logs.items():
        if "operator" in name.split("/")[0]:
            for line in text.splitlines():
                yield line, quoting.log(name, line)


def _check(case: Case) -> Iterable[Finding]:
    given: set[str] = set()
    for words, evidence in _told(case):
        for found in (_forbidden(case, words, evidence), _old_note(case, words, evidence)):
            if found and found.id not in given:
                given.add(found.id)
                yield found


def _forbidden(case: Case, words: str, evidence: Evidence) -> Finding | None:
    found = _FORBIDDEN.search(words)
    if found is None:
        return None
    group, where = found["group"] or '""', found["where"]
    kind = "Role" if where else "ClusterRole"
    rule = f'{{apiGroups: ["{found["group"]}"], resources: ["{found["resource"]}"], verbs: ["{found["verb"]}"]}}'
    return KINDS["operator-lacks-right"].finding(
        f"The KubeRay operator ({found['space']}/{found['account']}) may not {found['verb']} {found['resource']} of "
        "API group "
        f"{group}{f' in namespace {where}' if where else ' in the whole cluster'}: it cannot do its work, and a user "
        "cannot "
        "mend that",
        objects=(f"serviceaccount/{found['account']}", f"raycluster/{case.now.name}"),
        evidence=(evidence,),
        next_step=f"an administrator adds to the {kind} of that service account: {rule}",
    )


def _old_note(case: Case, words: str, evidence: Evidence) -> Finding | None:
    if not _OLD_NOTE.search(words):
        return None
    return KINDS["operator-annotation-outdated"].finding(
        f"The operator cannot read an annotation that an earlier version of it left on RayCluster {case.now.name}: "
        f"{quoting.clip(words, 200)}",
        objects=(f"raycluster/{case.now.name}",),
        evidence=(evidence,),
    )


def _two_heads(case: Case) -> Iterable[Finding]:
    heads = [pod for pod in case.pods if pod.role == "head" and pod.phase not in ("Failed", "Succeeded")]
    if len(heads) > 1:
        yield KINDS["two-head-pods"].finding(
            f"RayCluster {case.now.name} has {len(heads)} head pods ({quoting.listed([pod.name for pod in heads])}): "
            "the operator "
            "does nothing until one of them is deleted",
            objects=quoting.objects(heads),
            evidence=[
                Evidence(object=f"further head pod {pod.name}", text="is there", at=pod.created_at) for pod in heads[1:]
            ],
            since=max((pod.created_at or "" for pod in heads), default=None),
        )


RULES = (
    Rule(ids=("operator-lacks-right", "operator-annotation-outdated"), depth=Depth.ADMISSION, check=_check),
    Rule(ids=("two-head-pods",), depth=Depth.ADMISSION, check=_two_heads),
)
