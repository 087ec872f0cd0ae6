"""All rules, in one list. A new family is added here and nowhere else."""

from __future__ import annotations

from rayflight.diagnosis.case import Rule
from rayflight.diagnosis.rules import (
    admission,
    containers,
    finishing,
    head,
    images,
    jobs,
    joining,
    nodes,
    operator,
    queues,
    scheduling,
    volumes,
    workers,
)

RULES: tuple[Rule, ...] = (
    *nodes.RULES,
    *images.RULES,
    *volumes.RULES,
    *operator.RULES,
    *admission.RULES,
    *queues.RULES,
    *scheduling.RULES,
    *containers.RULES,
    *joining.RULES,
    *head.RULES,
    *workers.RULES,
    *finishing.RULES,
    *jobs.RULES,
)
