"""How each process tree of a local cluster is started: `ray start` with its ports, folder and environment. Pure.

Inside a fence all ports are the cluster's own and fixed; outside they are free ones of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayflight.keeper.processes import FOLDER, MARK, POD

GCS, DASHBOARD, CLIENT, AGENTS = 6379, 8265, 10001, 52365  # Ray's own numbers, as in a pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One process tree: what a pod is elsewhere. ``folder`` is Ray's temp folder of this tree alone.

    Trees that share one would delete each other's working directories.
    """

    name: str
    role: str
    group: str
    index: int
    folder: str
    cpus: int
    gpus: int
    simulated: bool
    object_store: int
    memory: int | None
    environment: Mapping[str, str]
    parameters: Mapping[str, str]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tree:
        """From ``plan.json``."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where one tree listens; the agent's port is the tree's own, the others are the head's."""

    gcs: int = GCS
    dashboard: int = DASHBOARD
    client: int = CLIENT
    agent: int = AGENTS


def command(ray: str, tree: Tree, ports: Ports) -> list[str]:
    """The `ray start` of this tree. It stays in front (``--block``), so that its end is the tree's end."""
    place = (
        ["--head", f"--port={ports.gcs}", f"--dashboard-port={ports.dashboard}", "--dashboard-host=127.0.0.1"]
        if tree.role == "head"
        else [f"--address=127.0.0.1:{ports.gcs}"]
    )
    if tree.role == "head":
        place += ["--include-dashboard=true", f"--ray-client-server-port={ports.client}"]
    return [
        ray,
        "start",
        *place,
        "--block",
        "--disable-usage-stats",
        "--node-ip-address=127.0.0.1",
        f"--dashboard-agent-listen-port={ports.agent}",
        # Ray's fixed range would meet that of any other Ray of this machine.
        "--min-worker-port=0",
        "--max-worker-port=0",
        f"--num-cpus={tree.cpus}",
        f"--num-gpus={tree.gpus}",
        f"--object-store-memory={tree.object_store}",
        f"--temp-dir={tree.folder}",
        *([f"--memory={tree.memory}"] if tree.memory else []),
        *([f"--labels=ray.io/node-group={tree.group}"] if tree.role == "worker" else []),
        *(f"--{name}={value}" for name, value in tree.parameters.items()),
    ]


def environment(
    tree: Tree, *, uid: str, folder: str, devices: Sequence[str], fenced: bool, token_file: str | None
) -> dict[str, str]:
    """What the tree's processes see. Nothing of the keeper's own environment: that is Airflow's."""
    # Unset, Ray would ask for a token as soon as any `ray.init()` of this user has left one in the home folder.
    token = {"RAY_AUTH_MODE": "disabled"}
    if token_file:
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token_file}
    # Libraries look for another interface than loopback unless they are told: in a fence there is none.
    loopback = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"} if fenced else {}
    return {
        # What a training leaves in its temporary folder goes with the cluster, as with a pod.
        "TMPDIR": temporary(tree),
        **tree.environment,
        **loopback,
        **token,
        **_devices(tree, devices),
        "RAY_CLOUD_INSTANCE_ID": tree.name,
        "RAY_USAGE_STATS_ENABLED": "0",
        MARK: uid,
        POD: tree.name,
        FOLDER: folder,
    }


def temporary(tree: Tree) -> str:
    """The folder for temporary files of the tree's processes."""
    return f"{tree.folder}/temporary"


def _devices(tree: Tree, devices: Sequence[str]) -> dict[str, str]:
    """``RAYFLIGHT_DEVICES`` tells the probe which of the machine's devices are this tree's.

    A simulated one gets a name that CUDA does not know, so that no real GPU is used in its place.
    """
    given = ",".join(devices)
    simulated = {"RAYFLIGHT_SIMULATED_GPU": "1"} if tree.simulated and tree.gpus else {}
    return {"CUDA_VISIBLE_DEVICES": given, "RAYFLIGHT_DEVICES": given, **simulated}


def simulated_devices(tree: Tree) -> tuple[str, ...]:
    """Names that say what they are wherever they are shown."""
    return tuple(f"SIMULATED-{tree.index}-{number}" for number in range(tree.gpus)) if tree.simulated else ()


def safe_path(ray: str, path: str) -> str:
    """PATH with Ray's own folder first: `python3` of an entrypoint is then the Python that has Ray."""
    return os.pathsep.join([os.path.dirname(ray), path or os.defpath])  # noqa: PTH120 - no file is looked at
