"""Token authentication by Ray's own environment, for a KubeRay whose CRD has no authOptions (1.5.0). Pure.

The token is made by the caller; here it is only put into its Secret, owned by the cluster, so that it goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rayflight.specs.pods import KubeObject

TOKEN_KEY = "auth_token"  # noqa: S105 - the key that KubeRay's own Secret uses (1.6.0 and later)


def token_secret_name(cluster: str) -> str:
    """Name of the Secret for the cluster of this name: the one that KubeRay itself would give it."""
    return cluster


def token_variables(secret: str) -> list[KubeObject]:
    """What every Ray container needs."""
    reference = {"secretKeyRef": {"name": secret, "key": TOKEN_KEY}}
    return [{"name": "RAY_AUTH_MODE", "value": "token"}, {"name": "RAY_AUTH_TOKEN", "valueFrom": reference}]


def token_secret(cluster: str, uid: str, namespace: str, token: str, own_labels: Mapping[str, str]) -> KubeObject:
    """The Secret that holds the token; created right after the cluster, for pods wait until it is there."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": token_secret_name(cluster),
            "namespace": namespace,
            "labels": dict(own_labels),
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "name": cluster,
                    "uid": uid,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "stringData": {TOKEN_KEY: token},
    }
