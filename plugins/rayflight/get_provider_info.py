"""What Airflow's provider manager learns about Rayflight. Read at every start of Airflow: imports nothing."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider description in the form of Airflow's provider_info schema."""
    return {
        "package-name": "rayflight",
        "name": "Rayflight",
        "description": "Distributed GPU training on Ray and Kubernetes (KubeRay), from check to landing.",
        "extra-links": ["rayflight.airflow.links.RayDashboardLink", "rayflight.airflow.links.ArchiveLink"],
        "notifications": ["rayflight.airflow.notifier.RayflightNotifier"],
        "asset-uris": [{"schemes": ["rayflight"], "handler": None}],
        "cli": ["rayflight.airflow.cli.commands"],
        "config": {
            "rayflight": {
                "description": "Settings of Rayflight.",
                "options": {
                    "instance": {
                        "description": "Name of this Airflow installation; its digest is on every cluster it makes. "
                        "Must differ between Airflows that share a Kubernetes cluster: the janitor goes by it.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "team-a-production",
                        "default": "",
                    },
                    "archive": {
                        "description": "URL below which every run keeps its logs and reports (any ObjectStoragePath). "
                        "A file:// URL serves one machine or a shared volume only.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "s3://aws_default@my-bucket/rayflight",
                        "default": "",
                    },
                    "grafana_url": {
                        "description": "URL of the Grafana dashboard in deploy/monitoring: alerts link to it with the "
                        "run and its time.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://grafana.example/d/rayflight",
                        "default": "",
                    },
                },
            }
        },
    }
