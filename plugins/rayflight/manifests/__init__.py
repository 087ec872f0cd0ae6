"""From a spec to the objects that Kubernetes stores. Pure: no I/O, no clock, no randomness."""

from rayflight.manifests.auth import token_secret, token_secret_name
from rayflight.manifests.cluster import build, build_cluster
from rayflight.manifests.stored import dropped_fields

__all__ = ["build", "build_cluster", "dropped_fields", "token_secret", "token_secret_name"]
