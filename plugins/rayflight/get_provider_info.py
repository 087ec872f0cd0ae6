"""What Airflow's provider manager learns about Rayflight. Read at every start of Airflow: imports nothing."""

from typing import Any

_TEXT = ["string", "null"]


def _field(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": _TEXT, **schema}}


# In the order of the form. What each means stands in docs/connections.md, too; a test keeps both equal.
_FIELDS = {
    "backend": _field(
        "Where clusters live",
        "kubernetes: KubeRay; local: processes of this machine",
        type="string",
        enum=["kubernetes", "local"],
        default="kubernetes",
    ),
    "kubernetes_conn_id": _field(
        "Kubernetes connection", "id of a Kubernetes connection whose access is used; the fields below stand on it"
    ),
    "kube_config_path": _field("Kubeconfig (path)", "path of a kubeconfig on every worker and triggerer"),
    "kube_config": _field("Kubeconfig (content)", "the kubeconfig itself, as JSON", format="password"),
    "in_cluster": _field("In cluster", "use the service account of Airflow's pods", type=["boolean", "null"]),
    "cluster_context": _field("Context", "context of the kubeconfig"),
    "token": _field(
        "Token", "bearer token that proves who asks, instead of the user of the kubeconfig", format="password"
    ),
    "namespace": _field("Namespace", "namespace where nothing else is said (default `default`)"),
    "allowed_namespaces": _field(
        "Allowed namespaces", "names separated by commas: no parameter of a trigger form reaches another namespace"
    ),
    "dashboard": _field(
        "Ray dashboard",
        "proxy: through the API server's service proxy; direct: by cluster DNS",
        type="string",
        enum=["proxy", "direct"],
        default="proxy",
    ),
    "archive": _field(
        "Archive", "URL below which runs of this connection keep their archive, instead of `[rayflight] archive`"
    ),
    "folder": _field("Folder (local)", "records of local clusters (default `$AIRFLOW_HOME/rayflight-local`)"),
    "network": _field(
        "Network (local)",
        "fenced: loopback only where the system allows it; host: reaches the world, guarded by Ray's token",
        type="string",
        enum=["fenced", "host"],
        default="fenced",
    ),
}


def get_provider_info() -> dict[str, Any]:
    """Return the provider description in the form of Airflow's provider_info schema."""
    return {
        "package-name": "rayflight",
        "name": "Rayflight",
        "description": "Distributed GPU training on Ray and Kubernetes (KubeRay), from check to landing.",
        "extra-links": ["rayflight.airflow.links.RayDashboardLink", "rayflight.airflow.links.ArchiveLink"],
        "notifications": ["rayflight.airflow.notifier.RayflightNotifier"],
        "asset-uris": [{"schemes": ["rayflight"], "handler": None}],
        "connection-types": [
            {
                "connection-type": "rayflight",
                "hook-class-name": "rayflight.airflow.hook.RayflightHook",
                "hook-name": "Rayflight",
                "conn-fields": _FIELDS,
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "schema", "login", "password", "port", "extra"],
                    "relabeling": {},
                    "placeholders": {"namespace": "default", "archive": "s3://aws_default@bucket/rayflight"},
                },
            }
        ],
        "task-decorators": [{"name": "ray", "class-name": "rayflight.airflow.decorator.ray_task"}],
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
