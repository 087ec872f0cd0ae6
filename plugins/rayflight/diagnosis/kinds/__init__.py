"""Every finding that a rule can give, by its stable id: what its page says. Pure data."""

from __future__ import annotations

from collections.abc import Mapping

from rayflight.diagnosis.kind import Kind
from rayflight.diagnosis.kinds import admission, airflow, hangs, kuberay, nodes, pods, queues, ray, user

KINDS: Mapping[str, Kind] = {
    kind.id: kind
    for family in (
        *(nodes.KINDS, pods.KINDS, admission.KINDS, queues.KINDS, kuberay.KINDS, ray.KINDS, user.KINDS, airflow.KINDS),
        hangs.KINDS,
    )
    for kind in family
}
