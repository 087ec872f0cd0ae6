"""What people write: cluster shapes, jobs, teardown policies. Checked here, before anything is created.

Pydantic models, frozen, unknown fields refused; what is wrong becomes one InvalidSpec. No I/O but in ``loading`` (YAML
files) and ``JobSpec.require_files``.
"""

from rayflight.specs.cluster import Autoscaler, ClusterSpec, GcsFaultTolerance
from rayflight.specs.job import JobSpec, OnHang, ScriptVariable
from rayflight.specs.loading import load_cluster, shape_names
from rayflight.specs.pods import EnvSource, HeadSpec, SecretKey, Toleration, WorkerGroup
from rayflight.specs.resize import resized
from rayflight.specs.storage import ObjectStorage, PvcStorage, Storage
from rayflight.specs.teardown import TeardownMode, TeardownPolicy
from rayflight.specs.verification import VerificationPolicy

__all__ = [
    "Autoscaler",
    "ClusterSpec",
    "EnvSource",
    "GcsFaultTolerance",
    "HeadSpec",
    "JobSpec",
    "ObjectStorage",
    "OnHang",
    "PvcStorage",
    "ScriptVariable",
    "SecretKey",
    "Storage",
    "TeardownMode",
    "TeardownPolicy",
    "Toleration",
    "VerificationPolicy",
    "WorkerGroup",
    "load_cluster",
    "resized",
    "shape_names",
]
