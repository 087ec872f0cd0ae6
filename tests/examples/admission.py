"""What the API server refuses, and what it dropped."""

from __future__ import annotations

from rayflight.snapshot.model import Condition, Quota
from rayflight.snapshot.surroundings import LimitRange
from tests.examples.shape import Example, show
from tests.made_up import GPU, at, cluster, gap, head, worker

KEY = f"requests.{GPU}"


def refused(message, *says, cluster_changes=None, **changes):
    said = Condition(
        type="ReplicaFailure", status="True", reason="FailedCreateWorkerPod", message=message, since=at(20)
    )
    made = cluster(conditions=(said,), **(cluster_changes or {}))
    return show(*says, cluster=made, pods=(head(), worker(1)), **changes)


def over(hard, used, asked="1"):
    return (
        f"pods x is forbidden: exceeded quota: q, requested: {KEY}={asked}, used: {KEY}={used}, limited: {KEY}={hard}"
    )


EXAMPLES: dict[str, Example] = {
    "quota-below-request": refused(over(1, 1), "hard limit 1"),
    "quota-used-up": refused(over(4, 4), "used 4"),
    "operator-backing-off": refused(
        over(4, 4), "room now", quotas=(Quota(name="q", hard={KEY: "4"}, used={KEY: "1"}),)
    ),
    "quota-must-be-specified": refused("failed quota: q: must specify limits.cpu"),
    "pod-security-refuses": refused('violates PodSecurity "restricted:latest"'),
    "limit-range-refuses": refused(
        'Pod "x" is invalid: resources.requests: Invalid value: "1": must be less than or equal to cpu limit',
        "LimitRange small (cpu 500m)",
        limit_ranges=(LimitRange(name="small", defaults={"cpu": "500m"}),),
    ),
    "webhook-unreachable": refused('failed calling webhook "m.kb.io": dial tcp: connect: connection refused'),
    "webhook-refuses": refused('admission webhook "policy" denied the request: no'),
    "service-account-missing": refused('serviceaccount "trainer" not found'),
    "priority-class-missing": refused("no PriorityClass with name high was found"),
    "runtime-class-missing": refused('RuntimeClass "nvidia" not found'),
    "namespace-terminating": refused("unable to create new content in namespace x because it is being terminated"),
    "operator-forbidden": refused(
        'pods is forbidden: User "system:serviceaccount:k:operator" cannot create resource "pods"'
    ),
    "pod-invalid": refused('Pod "x" is invalid: spec.containers: Required value'),
    "pod-creation-failing": refused("etcdserver: request timed out"),
    "fields-dropped-by-crd": show("is open", cluster=cluster(dropped=("spec.authOptions",))),
    "crd-not-installed": show(
        cluster=None, pods=(), ray=None, gaps=gap("cluster", "the server could not find the requested resource")
    ),
}
