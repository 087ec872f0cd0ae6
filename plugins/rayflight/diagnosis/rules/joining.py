"""Worker pods that run, but cannot join the head: another Ray version, or no way to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rayflight.diagnosis import quoting
from rayflight.diagnosis.case import Case, Depth, Rule
from rayflight.findings import Decision, Evidence, Finding, Layer
from rayflight.snapshot.model import Condition, Container, Pod
from rayflight.snapshot.times import seconds_between

# Ray's own words (ray/_private/utils.py), printed by `ray start` and, after 120 quiet seconds, by the init container.
_MISMATCH = re.compile(r"Version mismatch: The cluster was started with:.*?(?=\n\n|\Z)", re.DOTALL)
_RAY = re.compile(r"Ray: (\S+)")
_PYTHON = re.compile(r"Python: (\d+\.\d+)\.(\d+)")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_INIT = "wait-gcs-ready"
# Seconds with the head Ready; with the right version the init container needs about 5 of them. Tags of one repository
# are versions of one thing; those of two repositories may count something else than Ray's versions.
_OTHER_TAG, _OTHER_REPOSITORY = 12.0, 30.0
_NO_WAY_SECONDS = 120.0  # seconds; also a slow node has imported Ray by then
# KubeRay's script says after each check that failed how many seconds it runs, and sleeps before the next one. What
# counts is a check that began when the head served already: two of them, or one that sought it for long (where a name
# server is silent, a check takes 45 s; where it finds the head, a few). On a slow node they are rarer, not more.
_CHECK_FAILED = re.compile(r"^(\d+) seconds elapsed: (?:Still w|W)aiting for GCS", re.MULTILINE)
_BETWEEN_CHECKS, _SERVICE_FOLLOWS, _FAILED_CHECKS, _LONG_CHECK = 5.0, 2.0, 2, 20.0


def _mismatch(case: Case) -> Iterable[Finding]:
    """Said by Ray itself."""
    for pod in case.pods:
        if pod.role != "worker":
            continue
        for source, text in _texts(case, pod):
            found = _MISMATCH.search(text)
            if found:
                yield _finding(
                    pod,
                    id="ray-version-mismatch",
                    summary=f"Pod {pod.name} cannot join the head{_patch_only(found[0])}: "
                    f"{quoting.clip(found[0], 400)}",
                    evidence=(Evidence(object=source, text=quoting.clip(found[0])),),
                )
                return


def _patch_only(text: str) -> str:
    """Ray compares the patch level of Python too, which harms nothing."""
    rays, pythons = _RAY.findall(text), _PYTHON.findall(text)
    if len(pythons) < 2 or len(set(rays)) > 1 or pythons[0][0] != pythons[1][0] or pythons[0] == pythons[1]:
        return ""
    versions = " and ".join(f"{minor}.{patch}" for minor, patch in pythons[:2])
    allowed = "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor allows that"
    return f"; only the patch level of Python differs ({versions}; {allowed})"


def _texts(case: Case, pod: Pod) -> Iterator[tuple[str, str]]:
    for name, text in case.now.logs.items():
        if name.startswith(f"{pod.name}/"):
            yield f"log {name}", text
    for item in pod.containers:
        for ending in (item.terminated, item.last):
            if ending and ending.message:
                yield f"last message of container {item.name} of pod {pod.name}", ending.message


def _served(case: Case) -> Condition | None:
    """Since when the head serves; None while it does not, or nobody knows."""
    head = case.now.head
    served = head.condition("Ready") if head else None
    known = case.cluster is not None and case.now.ray is not None
    return served if known and served and served.status == "True" else None


def _waiting(case: Case) -> tuple[list[Pod], list[Pod]]:
    """Workers whose init container looks for the head: those with another version than the head, and the rest."""
    head = case.now.head
    pods = [pod for pod in case.pods if pod.role == "worker" and _in_init(pod)]
    other = [pod for pod in pods if head and _versions(pod) and _versions(head) and _versions(pod) != _versions(head)]
    return other, [pod for pod in pods if pod not in other]


def _other_version(case: Case) -> Iterable[Finding]:
    """The init container says nothing for two minutes: what tells is that it goes on while the head serves."""
    served, head = _served(case), case.now.head
    other, _ = _waiting(case)
    if served is None or head is None or not other:
        return
    if all(_lasts(case, pod, served.since, _patience(pod, head)) for pod in other):
        yield _finding(
            other[0],
            id="ray-version-mismatch",
            summary=(
                f"{quoting.pods_named(other)} cannot join the head, which serves since {served.since}: the images name "
                f"other versions, the worker's is {_main(other[0]).image}, the head's is {_main(head).image}"
            ),
            evidence=(quoting.condition(f"pod {head.name}", served), quoting.container(other[0], _init(other[0]))),
        )


def _no_way(case: Case) -> Iterable[Finding]:
    served, head = _served(case), case.now.head
    if served is None or head is None:
        return
    failed = [(pod, _failed_checks(case, pod, served.since)) for pod in _waiting(case)[1]]
    proven = [(pod, checks) for pod, checks in failed if checks or _lasts(case, pod, served.since, _NO_WAY_SECONDS)]
    rest = [pod for pod, _ in proven]
    if rest:
        checks = proven[0][1]
        yield Finding(
            id="head-not-reachable",
            title="Worker pods cannot reach the head",
            layer=Layer.KUBERNETES,
            summary=(
                f"{quoting.pods_named(rest)} waits in init container {_INIT}, though the head serves since "
                f"{served.since}: a NetworkPolicy, DNS (cluster domain) or a service mesh stands between them"
            ),
            next_step="read the init container's log; check NetworkPolicies and the cluster domain (CLUSTER_DOMAIN)",
            decision=Decision.FAIL,
            objects=quoting.objects(rest),
            evidence=(
                quoting.condition(f"pod {head.name}", served),
                quoting.container(rest[0], _init(rest[0])),
                *(quoting.log(f"{rest[0].name}/{_INIT}", line) for line in checks[-1:]),
            ),
            since=served.since,
        )


def _failed_checks(case: Case, pod: Pod, served: str | None) -> list[str]:
    """Lines of checks that failed though they began after the head served (and its Service had time to follow), where
    they are enough to prove that no check will do better."""
    since = seconds_between(served, _init(pod).started_at)
    if since is None:
        return []
    lines = list(_CHECK_FAILED.finditer(case.now.logs.get(f"{pod.name}/{_INIT}", "")))
    began = [0.0, *(float(line[1]) + _BETWEEN_CHECKS for line in lines)]  # of the oldest line kept: not before that
    late = [(line, at) for line, at in zip(lines, began, strict=False) if since + at >= _SERVICE_FOLLOWS]
    long = any(float(line[1]) - at >= _LONG_CHECK for line, at in late)
    return [quoting.line_of(line) for line, _ in late] if long or len(late) >= _FAILED_CHECKS else []


def _finding(
    pod: Pod,
    *,
    id: str,  # noqa: A002 - the name of Finding's own field
    summary: str,
    evidence: tuple[Evidence, ...],
) -> Finding:
    return Finding(
        id=id,
        title="Workers have another Ray or Python version than the head",
        layer=Layer.RAY,
        summary=summary,
        next_step="use images with the same Ray and Python version on head and workers",
        decision=Decision.FAIL,
        objects=quoting.objects([pod]),
        evidence=evidence,
        since=quoting.earliest(evidence),
    )


def _in_init(pod: Pod) -> bool:
    return any(item.init and item.name == _INIT and item.state == "running" for item in pod.containers)


def _lasts(case: Case, pod: Pod, served: str | None, seconds: float) -> bool:
    """Both the head has served and this init container has run for so long."""
    return case.lasts(served, seconds) and case.lasts(_init(pod).started_at, seconds)


def _init(pod: Pod) -> Container:
    return next(item for item in pod.containers if item.init and item.name == _INIT)


def _main(pod: Pod) -> Container:
    return next(item for item in pod.containers if not item.init)


def _patience(pod: Pod, head: Pod) -> float:
    same = _repository(pod) == _repository(head)
    return _OTHER_TAG if same else _OTHER_REPOSITORY


def _repository(pod: Pod) -> str:
    return _main(pod).image.rpartition(":")[0]


def _versions(pod: Pod) -> list[str]:
    """Version numbers in the tag of the Ray container's image; a tag like ``latest`` says nothing."""
    return _VERSION.findall(_main(pod).image.rpartition(":")[2])[:1]


RULES = (
    Rule(ids=("ray-version-mismatch",), depth=Depth.ADMISSION, check=_mismatch),
    Rule(ids=("ray-version-mismatch",), depth=Depth.ADMISSION, check=_other_version),
    Rule(ids=("head-not-reachable",), depth=Depth.CLUSTER, check=_no_way),
)
