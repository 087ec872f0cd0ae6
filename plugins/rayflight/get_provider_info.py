"""What Airflow's provider manager learns about Rayflight. Read at every start of Airflow: imports nothing."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider description in the form of Airflow's provider_info schema."""
    return {
        "package-name": "rayflight",
        "name": "Rayflight",
        "description": "Distributed GPU training on Ray and Kubernetes (KubeRay), from check to landing.",
    }
