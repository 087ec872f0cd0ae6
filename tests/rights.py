"""The rights of deploy/kubernetes/rbac.yaml, one by one, and the roles without some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from dev.airflow_home import ROOT

DEPLOY = ROOT / "deploy" / "kubernetes"
CLUSTER = "ClusterRole"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource, from the Role or the ClusterRole."""

    verb: str
    resource: str  # as RBAC spells it: pods/log
    group: str = ""
    kind: str = "Role"

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}{' (cluster)' if self.kind == CLUSTER else ''}"


def roles() -> dict[str, dict[str, Any]]:
    """The Role and the ClusterRole."""
    documents = yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text())
    return {document["kind"]: document for document in documents if "rules" in document}


def rights() -> list[Right]:
    """Every right of both."""
    return [right for role in roles().values() for right in _of(role)]


def without(role: Mapping[str, Any], taken: Collection[Right]) -> list[dict[str, Any]]:
    """The role's rules without these rights."""
    left = [right for right in _of(role) if right not in taken]
    return [{"apiGroups": [it.group], "resources": [it.resource], "verbs": [it.verb]} for it in left]


def _of(role: Mapping[str, Any]) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from (Right(verb, resource, group, role["kind"]) for verb in rule["verbs"])
