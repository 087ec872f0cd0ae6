"""Kinds of what the API server refuses: no pod exists, so nothing is Pending."""

from __future__ import annotations

from rayflight.diagnosis.kind import kinds
from rayflight.findings import Decision, Layer

_FAIL, _AFTER, _WAIT = Decision.FAIL, Decision.RETRY_AFTER, Decision.WAIT

KINDS = kinds(
    Layer.KUBERNETES,
    (
        ("quota-below-request", "The namespace's quota is below what the cluster asks for", _FAIL,
         "`exceeded quota`, and the hard limit is smaller than the whole cluster", "never, whoever else runs",
         "ask for less, or have the quota raised"),
        ("quota-used-up", "The quota is used up by others", _WAIT,
         "`exceeded quota`, and the hard limit would do", "not now: others in the namespace hold it",
         "wait until others release it (the operator then tries again, up to minutes later), or ask for less"),
        ("quota-must-be-specified", "The quota wants a value that the pod does not give", _FAIL,
         "`failed quota: ... must specify`", "a quota counts a resource for which the pod sets nothing",
         "set the requests and limits that the quota counts"),
        ("pod-security-refuses", "Pod Security refuses the pod", _FAIL,
         "`violates PodSecurity`", "the namespace enforces a level that the template breaks",
         "change the pod's securityContext or the namespace's level"),
        ("limit-range-refuses", "A LimitRange refuses the pod", _FAIL,
         "`maximum ... usage per Container`, `must be less than or equal to cpu limit`",
         "outside the LimitRange, or a request above the limit that the LimitRange fills in",
         "set requests and limits inside the namespace's LimitRange (it also fills in what is absent)"),
        ("webhook-unreachable", "An admission webhook cannot be reached", _AFTER,
         "`failed calling webhook`", "the webhook's service has no ready endpoint; the manifest is not at fault",
         "check the webhook's service; the spec is not at fault"),
        ("webhook-refuses", "An admission webhook refuses the pod", _FAIL,
         "`admission webhook ... denied the request`", "a policy of this cluster", "follow the webhook's words"),
        ("service-account-missing", "The service account does not exist", _FAIL,
         "`serviceaccount \"...\" not found`", "a wrong name or namespace",
         "create the service account or name another"),
        ("priority-class-missing", "The priority class does not exist", _FAIL,
         "`no PriorityClass with name`", "a wrong name", "create the priority class or name another"),
        ("runtime-class-missing", "The runtime class does not exist", _FAIL,
         "`RuntimeClass \"...\" not found`", "the GPU runtime is not installed under this name",
         "create the runtime class or name another"),
        ("namespace-terminating", "The namespace is being deleted", _FAIL,
         "`because it is being terminated`", "somebody deleted the namespace",
         "use another namespace, or wait until it is gone and create it again"),
        ("pod-invalid", "The API server calls the pod invalid", _FAIL,
         "`is invalid`, `Invalid value`, `is forbidden`", "the template", "correct the pod's template"),
        ("pod-creation-failing", "Pods cannot be created", _AFTER,
         "FailedToCreateHeadPod, FailedToCreateWorkerPod with words that no other kind knows",
         "what the API server says",
         "read the API server's words; the operator tries again by itself"),
    ),
)  # fmt: skip
