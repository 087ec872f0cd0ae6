"""Names, labels and annotations: what on a cluster says whose it is. Pure: no I/O, no clock.

The world is the authority (decision 1): everything that a later task, another process or the janitor must know about
ownership stands on the cluster itself. Label values are limited to 63 characters of a small alphabet, so labels carry
digests for selecting and annotations carry the full values for reading.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rayflight.errors import InvalidSpec

PREFIX = "rayflight.io/"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "rayflight"

AIRFLOW = PREFIX + "airflow"  # label: digest of the Airflow installation
RUN = PREFIX + "run"  # label: digest of (airflow, dag, run)
FLIGHT = PREFIX + "flight"  # label: digest of (airflow, dag, run, group, map index)
ATTEMPT = PREFIX + "attempt"  # label: attempt number
RENEWAL = PREFIX + "renewal"  # label: 0, or the try of the task that replaced a lost cluster
SPEC_HASH = PREFIX + "spec-hash"  # label: digest of the spec that was asked for
OWNER = PREFIX + "owner"  # annotation: the Owner as JSON
READY_SESSION = PREFIX + "session"  # annotation: the Ray session_name that became ready; another one means a lost head
VERIFIED_SESSION = PREFIX + "verified-session"  # annotation: the Ray session_name that passed verification
CONDEMNED = PREFIX + "condemned"  # annotation: the id of the cause for which no further try may train there
SIMULATED = PREFIX + "simulated-gpus"  # annotation "true": the GPUs are none
REPLACED = PREFIX + "replaced-pods"  # annotation: worker pods that a verification replaced, in their order
AVOIDED = PREFIX + "avoided-nodes"  # annotation: Kubernetes nodes that failed a verification of this run before
TAKEN = PREFIX + "taken"  # annotation: how often Kueue took it away and a retry went on with it
KEEP_UNTIL = PREFIX + "keep-until"  # annotation: RFC 3339; kept for a person until then

MAX_CLUSTER_NAME = 53  # KubeRay: longer names get an event only and no status (validation.go)
_SLUG_LENGTH = 20  # pod names keep only the first 50 characters of <cluster>-<group>, so the name stays short


def digest(*parts: object, length: int = 10) -> str:
    """A short, stable, lower-case digest of the parts; the order counts."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a cluster is. ``airflow`` names the installation; ``attempt`` is that of ``plan`` (decision 1)."""

    airflow: str
    dag_id: str
    run_id: str
    group: str
    map_index: int = -1
    attempt: int = 1
    renewal: int = 0

    def __post_init__(self) -> None:
        if self.attempt < 1 or self.renewal < 0:
            raise InvalidSpec(
                "Invalid owner",
                which=f"of dag {self.dag_id}",
                why=f"attempt {self.attempt} must be at least 1 and renewal {self.renewal} at least 0",
                next_step="hand on the attempt that `plan` returned",
            )

    @property
    def run_digest(self) -> str:
        """Selects everything of one dag run."""
        return digest(self.airflow, self.dag_id, self.run_id)

    @property
    def flight_digest(self) -> str:
        """Selects everything of one task group (and map index) of one dag run, over all attempts."""
        return digest(self.airflow, self.dag_id, self.run_id, self.group, self.map_index)

    @property
    def cluster_name(self) -> str:
        """Deterministic RayCluster name: DNS-1035, at most 53 characters, never shared by two attempts."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.dag_id.lower()).strip("-")[:_SLUG_LENGTH].strip("-") or "run"
        suffix = f"a{self.attempt}" + (f"r{self.renewal}" if self.renewal else "")
        return f"rf-{slug}-{self.flight_digest}-{suffix}"

    def labels(self) -> dict[str, str]:
        """Labels for selecting: on the RayCluster and on every pod."""
        return {
            MANAGED_BY: MANAGER,
            AIRFLOW: digest(self.airflow),
            RUN: self.run_digest,
            FLIGHT: self.flight_digest,
            ATTEMPT: str(self.attempt),
            RENEWAL: str(self.renewal),
        }

    def flight_selector(self) -> str:
        """Label selector for all attempts of this flight."""
        return f"{MANAGED_BY}={MANAGER},{FLIGHT}={self.flight_digest}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Owner:
        """The inverse of ``to_dict``."""
        return cls(**data)


def run_selector(owner: Owner) -> str:
    """Label selector for all clusters of the owner's dag run, whatever their group and map index."""
    return f"{MANAGED_BY}={MANAGER},{RUN}={owner.run_digest}"


def airflow_selector(airflow: str) -> str:
    """Label selector for everything that one Airflow installation made."""
    return f"{MANAGED_BY}={MANAGER},{AIRFLOW}={digest(airflow)}"
