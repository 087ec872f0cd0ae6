"""The manifests that golden files hold: every shipped shape, and shapes written to touch one feature each."""

from pathlib import Path

from rayflight.labels import Owner
from rayflight.manifests import build
from rayflight.specs import load_cluster
from rayflight.specs.pods import KubeObject

ROOT = Path(__file__).parents[1]
SHAPES = [
    *sorted((ROOT / "include/clusters").glob("*.yaml")),
    *sorted((ROOT / "tests/unit/manifests/shapes").glob("*.yaml")),
]
GOLDEN = ROOT / "tests/unit/manifests/golden"
OWNER = Owner(airflow="https://airflow.example.com", dag_id="train", run_id="manual__1", group="training", attempt=2)


def manifest(shape: Path) -> KubeObject:
    """The RayCluster of this shape; a file name that ends in -by-env asks for token mode by environment."""
    secret = OWNER.cluster_name if shape.stem.endswith("-by-env") else None
    return build(load_cluster(shape), OWNER, "training", token_secret=secret)
